// SPDX-License-Identifier: Apache-2.0

package wire

import "fmt"

// Lengths of the private data of connections, in bytes (fabrics 7.3.6.3). A connection manager may hand over more.
const (
	RequestSize = 32
	AcceptSize  = 32
	RejectSize  = 4
)

// Request is the private data of a connection request (fabrics 7.3.6.3, figure of RDMA_CM_REQUEST).
type Request struct {
	Format     uint16 // 0
	QID        uint16 // the queue: 0 is the admin queue
	HostRecvs  uint16 // HRQSIZE: receives that the host posts for responses
	HostSends  uint16 // HSQSIZE: commands in flight, less one
	Controller uint16 // CNTLID, from NVMe-oF 1.1 on; 0 if not known
}

// Decode decodes private data; false: there are fewer than 32 bytes.
func (r *Request) Decode(b []byte) bool {
	if len(b) < RequestSize {
		return false
	}
	*r = Request{le.Uint16(b), le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:])}
	return true
}

// Append appends the 32 bytes.
func (r *Request) Append(b []byte) []byte {
	for _, v := range [...]uint16{r.Format, r.QID, r.HostRecvs, r.HostSends, r.Controller} {
		b = le.AppendUint16(b, v)
	}
	return append(b, make([]byte, RequestSize-10)...)
}

// Accept is the private data of the answer that accepts a connection.
type Accept struct {
	Format uint16 // 0
	Recvs  uint16 // CRQSIZE: receives that the controller posts for commands
}

// Decode decodes private data; false: there are fewer than 32 bytes.
func (a *Accept) Decode(b []byte) bool {
	if len(b) < AcceptSize {
		return false
	}
	*a = Accept{le.Uint16(b), le.Uint16(b[2:])}
	return true
}

// Append appends the 32 bytes.
func (a *Accept) Append(b []byte) []byte {
	b = le.AppendUint16(le.AppendUint16(b, a.Format), a.Recvs)
	return append(b, make([]byte, AcceptSize-4)...)
}

// RejectStatus is why a controller rejected a connection (fabrics 7.3.6.3).
type RejectStatus uint16

// Reasons of a rejection.
const (
	RejectPrivateData RejectStatus = iota + 1
	RejectFormat
	RejectQID
	RejectHostSends
	RejectHostRecvs
	RejectNoResources
	RejectIRD
	RejectORD
)

// String returns the reason in words.
func (s RejectStatus) String() string {
	names := [...]string{RejectPrivateData: "invalid private data length", RejectFormat: "invalid record format",
		RejectQID: "invalid queue ID", RejectHostSends: "invalid HSQSIZE", RejectHostRecvs: "invalid HRQSIZE",
		RejectNoResources: "no resources", RejectIRD: "invalid IRD", RejectORD: "invalid ORD"}
	if s == 0 || int(s) >= len(names) {
		return fmt.Sprintf("status %d", uint16(s))
	}
	return names[s]
}

// Reject is the private data of a rejection.
type Reject struct {
	Format uint16 // 0
	Status RejectStatus
}

// Decode decodes private data; false: there are fewer than 4 bytes.
func (r *Reject) Decode(b []byte) bool {
	if len(b) < RejectSize {
		return false
	}
	*r = Reject{le.Uint16(b), RejectStatus(le.Uint16(b[2:]))}
	return true
}

// Append appends the 4 bytes.
func (r *Reject) Append(b []byte) []byte {
	return le.AppendUint16(le.AppendUint16(b, r.Format), uint16(r.Status))
}
