// SPDX-License-Identifier: Apache-2.0

package iwarp

import "encoding/binary"

// Lengths of DDP's headers including the parts of RDMAP, in bytes.
const (
	TaggedLen   = 14
	UntaggedLen = 18
)

// Versions of DDP and RDMAP that this package knows.
const (
	DDPVersion   = 1
	RDMAPVersion = 1
)

// STag is a steering tag: the key of a region or window.
type STag uint32

// QueueNumber is a queue of untagged messages (RFC 5040 section 4.2, RFC 7306 section 5.2).
type QueueNumber uint32

const (
	QueueSend           QueueNumber = iota // sends, immediate data
	QueueReadRequest                       // read and atomic requests
	QueueTerminate                         //
	QueueAtomicResponse                    //
	Queues                                 // number of queues
)

// Opcode is the kind of an RDMAP message (RFC 5040 section 4.3, RFC 7306 section 4.1).
type Opcode uint8

const (
	OpWrite          Opcode = iota // RDMA Write
	OpReadRequest                  // RDMA Read Request
	OpReadResponse                 // RDMA Read Response
	OpSend                         // Send
	OpSendInv                      // Send with Invalidate
	OpSendSE                       // Send with Solicited Event
	OpSendSEInv                    // Send with Solicited Event and Invalidate
	OpTerminate                    // Terminate
	OpImmediate                    // Immediate Data (RFC 7306)
	OpImmediateSE                  // Immediate Data with Solicited Event (RFC 7306)
	OpAtomicRequest                // Atomic Request (RFC 7306)
	OpAtomicResponse               // Atomic Response (RFC 7306)
)

// opRow is the row of an opcode.
type opRow struct {
	name   string
	tagged bool
	queue  QueueNumber // of untagged messages
	fixed  int         // length of an untagged message in bytes; 0: variable
}

var opRows = [16]opRow{
	OpWrite:          {name: "RDMA Write", tagged: true},
	OpReadRequest:    {name: "RDMA Read Request", queue: QueueReadRequest, fixed: ReadRequestLen},
	OpReadResponse:   {name: "RDMA Read Response", tagged: true},
	OpSend:           {name: "Send"},
	OpSendInv:        {name: "Send with Invalidate"},
	OpSendSE:         {name: "Send with SE"},
	OpSendSEInv:      {name: "Send with SE and Invalidate"},
	OpTerminate:      {name: "Terminate", queue: QueueTerminate},
	OpImmediate:      {name: "Immediate Data", fixed: ImmediateLen},
	OpImmediateSE:    {name: "Immediate Data with SE", fixed: ImmediateLen},
	OpAtomicRequest:  {name: "Atomic Request", queue: QueueReadRequest, fixed: AtomicRequestLen},
	OpAtomicResponse: {name: "Atomic Response", queue: QueueAtomicResponse, fixed: AtomicResponseLen},
}

// Valid reports whether the opcode is defined.
func (o Opcode) Valid() bool { return opRows[o&15].name != "" && o < 16 }

// Tagged reports whether its segments are tagged.
func (o Opcode) Tagged() bool { return opRows[o&15].tagged }

// Queue returns the queue of an untagged message.
func (o Opcode) Queue() QueueNumber { return opRows[o&15].queue }

// Fixed returns the length of an untagged message in bytes; 0: it varies.
func (o Opcode) Fixed() int { return opRows[o&15].fixed }

// IsSend reports whether the message goes into a posted receive as a whole.
func (o Opcode) IsSend() bool { return o >= OpSend && o <= OpSendSEInv }

// Invalidates reports whether the message names a steering tag to invalidate.
func (o Opcode) Invalidates() bool { return o == OpSendInv || o == OpSendSEInv }

// Solicited reports whether the message raises a solicited event.
func (o Opcode) Solicited() bool { return o == OpSendSE || o == OpSendSEInv || o == OpImmediateSE }

// String returns the message's name.
func (o Opcode) String() string {
	if !o.Valid() {
		return "unknown"
	}
	return opRows[o].name
}

// Header is that of a DDP segment, with RDMAP's part (RFC 5041 section 4, RFC 5040
// section 4.1).
//
//	 0               1               2               3
//	+---------------+---------------+
//	|T L  res   DV  |RV  res Opcode |
//	+---------------+---------------+-------------------------------+
//	tagged:                         |             STag …            |
//	+-------------------------------+-------------------------------+
//	|              …                |            TO (8 bytes) …     |
//
//	untagged:                       |   Invalidate STag or zero …   |
//	+-------------------------------+-------------------------------+
//	|              …                |              QN …             |
//	|              …                |             MSN …             |
//	|              …                |              MO …             |
type Header struct {
	Tagged   bool
	Last     bool  // the message's last segment
	DDP      uint8 // version
	RDMAP    uint8 // version
	Opcode   Opcode
	Reserved uint8 // reserved bits of both control bytes, as received: DDP's on top

	STag STag   // tagged; untagged: the steering tag to invalidate
	TO   uint64 // tagged offset

	Queue QueueNumber // untagged
	MSN   uint32      // message sequence number of its queue, from 1
	MO    uint32      // message offset, bytes
}

// Len returns the length of the header in bytes.
func (h *Header) Len() int {
	if h.Tagged {
		return TaggedLen
	}
	return UntaggedLen
}

// HeaderLen returns the length in bytes of a header that begins with ctrl.
func HeaderLen(ctrl byte) int {
	if ctrl&0x80 != 0 {
		return TaggedLen
	}
	return UntaggedLen
}

// Decode reads a header. It returns false if b is too short. The caller checks versions and the
// opcode.
func (h *Header) Decode(b []byte) bool {
	if len(b) < TaggedLen || len(b) < HeaderLen(b[0]) {
		return false
	}
	h.Tagged, h.Last, h.DDP = b[0]&0x80 != 0, b[0]&0x40 != 0, b[0]&3
	h.RDMAP, h.Opcode = b[1]>>6, Opcode(b[1]&15)
	h.Reserved = b[0]<<2&0xf0 | b[1]>>4&3
	h.STag = STag(binary.BigEndian.Uint32(b[2:]))
	if h.Tagged {
		h.TO = binary.BigEndian.Uint64(b[6:])
		h.Queue, h.MSN, h.MO = 0, 0, 0
		return true
	}
	h.TO = 0
	h.Queue, h.MSN, h.MO = QueueNumber(binary.BigEndian.Uint32(b[6:])), binary.BigEndian.Uint32(b[10:]),
		binary.BigEndian.Uint32(b[14:])
	return true
}

// Append appends the header.
func (h *Header) Append(b []byte) []byte {
	ctrl := h.DDP&3 | h.Reserved>>2&0x3c
	if h.Tagged {
		ctrl |= 0x80
	}
	if h.Last {
		ctrl |= 0x40
	}
	b = append(b, ctrl, h.RDMAP<<6|h.Reserved<<4&0x30|byte(h.Opcode)&15)
	b = binary.BigEndian.AppendUint32(b, uint32(h.STag))
	if h.Tagged {
		return binary.BigEndian.AppendUint64(b, h.TO)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(h.Queue))
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}
