// SPDX-License-Identifier: Apache-2.0

// Package smb2 reads the parts of SMB2 that moving data through the RDMA channel needs: the header, and where READ and
// WRITE requests have their fields (MS-SMB2 2.2.1, 2.2.19 to 2.2.22).
package smb2

import "encoding/binary"

// Lengths of messages in bytes.
const (
	HeaderSize    = 64
	BodySize      = 48 // of READ and WRITE requests, without the bytes behind the fixed part
	AnswerSize    = 16 // of the READ response, without data
	TransformSize = 52 // of the header of encrypted messages (2.2.41)
)

// Commands.
const (
	Negotiate = 0
	Read      = 8
	Write     = 9
)

// Flags of headers.
const (
	FlagResponse = 0x1
	FlagSigned   = 0x8
)

// Statuses of responses.
const (
	StatusSuccess        = 0
	StatusPending        = 0x103
	StatusBufferOverflow = 0x80000005
)

// Values of Channel (2.2.19).
const (
	ChannelNone = iota
	ChannelV1
	ChannelV1Invalidate
)

// Offsets in messages.
const (
	LengthAt     = HeaderSize + 4 // of READ and WRITE requests; DataLength of the READ response
	DataOffsetAt = HeaderSize + 2 // of WRITE requests, 2 bytes; of the READ response, 1 byte
	RemainingAt  = HeaderSize + 8 // DataRemaining of the READ response
	DialectAt    = HeaderSize + 4 // DialectRevision of the NEGOTIATE response
)

// Offsets of fields about the channel behind Channel itself.
const (
	ChannelRemaining = 4  // RemainingBytes, 4 bytes
	ChannelOffset    = 8  // where the descriptors are, 2 bytes
	ChannelLength    = 10 // of the descriptors in bytes, 2 bytes
	ChannelSize      = 12 // of all of it
)

// Header holds the fields of a header that are used.
type Header struct {
	Status, Flags, Next uint32
	Command             uint16
	ID                  uint64 // MessageId
}

// Decode reads a header. It returns false if b has something else, such as an encrypted message.
func (h *Header) Decode(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < HeaderSize || string(b[:4]) != "\xfeSMB" || le.Uint16(b[4:]) != HeaderSize {
		return false
	}
	*h = Header{Status: le.Uint32(b[8:]), Command: le.Uint16(b[12:]), Flags: le.Uint32(b[16:]), Next: le.Uint32(b[20:]),
		ID: le.Uint64(b[24:])}
	return true
}

// signingRequired is a bit of SecurityMode (2.2.3, 2.2.4).
const signingRequired = 0x2

// RequiresSigning reports whether a NEGOTIATE request or response requires that messages are signed.
func (h *Header) RequiresSigning(b []byte) bool {
	at := HeaderSize + 4 // SecurityMode
	if h.Flags&FlagResponse != 0 {
		at = HeaderSize + 2
	}
	return h.Command == Negotiate && len(b) >= at+2 && binary.LittleEndian.Uint16(b[at:])&signingRequired != 0
}

// Encrypted reports whether a message is encrypted (2.2.41).
func Encrypted(b []byte) bool { return len(b) >= TransformSize && string(b[:4]) == "\xfdSMB" }

// ChannelAt returns where a READ or WRITE request has its Channel. ok is false if it is no such request, or cut off.
func (h *Header) ChannelAt(b []byte) (at int, ok bool) {
	if h.Flags&FlagResponse != 0 || len(b) < HeaderSize+BodySize {
		return 0, false
	}
	switch h.Command {
	case Read:
		return HeaderSize + 36, true
	case Write:
		return HeaderSize + 32, true
	}
	return 0, false
}

// Channel returns a request's Channel, and where it is. Requests without such a field have none.
func (h *Header) Channel(b []byte) (channel uint32, at int) {
	at, ok := h.ChannelAt(b)
	if !ok {
		return ChannelNone, 0
	}
	return binary.LittleEndian.Uint32(b[at:]), at
}

// Answers reports whether a message is the final response to a READ or WRITE.
func (h *Header) Answers() bool {
	return h.Flags&FlagResponse != 0 && (h.Command == Read || h.Command == Write) && h.Status != StatusPending
}

// HasData reports whether a final response to a READ has data: it does with some errors, too.
func (h *Header) HasData() bool {
	return h.Command == Read && (h.Status == StatusSuccess || h.Status == StatusBufferOverflow)
}
