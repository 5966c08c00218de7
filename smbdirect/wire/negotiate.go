// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
)

// Version1 is the only version of the protocol (1.7).
const Version1 = 0x0100

// Lengths of messages in bytes.
const (
	RequestSize  = 20
	ResponseSize = 32
)

// The least values that a peer may have (3.1.5.5, 3.1.5.6).
const (
	MinReceiveSize    = 128
	MinFragmentedSize = 128 << 10
)

// Status is an NTSTATUS.
type Status uint32

const (
	StatusSuccess      Status = 0
	StatusNotSupported Status = 0xc00000bb // no version that both sides have
)

// String returns the name in MS-ERREF.
func (s Status) String() string {
	switch s {
	case StatusSuccess:
		return "STATUS_SUCCESS"
	case StatusNotSupported:
		return "STATUS_NOT_SUPPORTED"
	}
	return fmt.Sprintf("status %#x", uint32(s))
}

// Request is a Negotiate Request, the first message of the side that connects (2.2.1).
type Request struct {
	MinVersion, MaxVersion uint16
	CreditsRequested       uint16
	PreferredSendSize      uint32 // bytes of the longest message that it wants to send
	MaxReceiveSize         uint32 // bytes of the longest message that it can receive
	MaxFragmentedSize      uint32 // upper-layer bytes of the longest sequence of fragments that it can receive
}

// Decode reads a request. It returns false if b is too short. Bytes behind it are ignored.
func (r *Request) Decode(b []byte) bool {
	if len(b) < RequestSize {
		return false
	}
	le := binary.LittleEndian
	*r = Request{MinVersion: le.Uint16(b), MaxVersion: le.Uint16(b[2:]), CreditsRequested: le.Uint16(b[6:]),
		PreferredSendSize: le.Uint32(b[8:]), MaxReceiveSize: le.Uint32(b[12:]), MaxFragmentedSize: le.Uint32(b[16:])}
	return true
}

// Append appends the request.
func (r *Request) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, r.MinVersion)
	b = le.AppendUint16(b, r.MaxVersion)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, r.CreditsRequested)
	b = le.AppendUint32(b, r.PreferredSendSize)
	b = le.AppendUint32(b, r.MaxReceiveSize)
	return le.AppendUint32(b, r.MaxFragmentedSize)
}

// Response is a Negotiate Response (2.2.2).
type Response struct {
	MinVersion, MaxVersion uint16
	NegotiatedVersion      uint16
	CreditsRequested       uint16
	CreditsGranted         uint16
	Status                 Status
	MaxReadWriteSize       uint32 // bytes of the longest transfer by RDMA READ or WRITE
	PreferredSendSize      uint32
	MaxReceiveSize         uint32
	MaxFragmentedSize      uint32
}

// Decode reads a response. It returns false if b is too short. Bytes behind it are ignored.
func (r *Response) Decode(b []byte) bool {
	if len(b) < ResponseSize {
		return false
	}
	le := binary.LittleEndian
	*r = Response{MinVersion: le.Uint16(b), MaxVersion: le.Uint16(b[2:]), NegotiatedVersion: le.Uint16(b[4:]),
		CreditsRequested: le.Uint16(b[8:]), CreditsGranted: le.Uint16(b[10:]), Status: Status(le.Uint32(b[12:])),
		MaxReadWriteSize: le.Uint32(b[16:]), PreferredSendSize: le.Uint32(b[20:]), MaxReceiveSize: le.Uint32(b[24:]),
		MaxFragmentedSize: le.Uint32(b[28:])}
	return true
}

// Append appends the response.
func (r *Response) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, r.MinVersion)
	b = le.AppendUint16(b, r.MaxVersion)
	b = le.AppendUint16(b, r.NegotiatedVersion)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, r.CreditsRequested)
	b = le.AppendUint16(b, r.CreditsGranted)
	b = le.AppendUint32(b, uint32(r.Status))
	b = le.AppendUint32(b, r.MaxReadWriteSize)
	b = le.AppendUint32(b, r.PreferredSendSize)
	b = le.AppendUint32(b, r.MaxReceiveSize)
	return le.AppendUint32(b, r.MaxFragmentedSize)
}
