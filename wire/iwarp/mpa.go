// SPDX-License-Identifier: Apache-2.0

package iwarp

import "encoding/binary"

// Lengths of MPA's set-up frames in bytes (RFC 5044 section 7.1).
const (
	FrameHeaderLen = 20
	MaxPrivateData = 512
	EnhancedLen    = 4 // of Enhanced, in the private data
)

// FrameKind tells requests from replies.
type FrameKind uint8

const (
	Request FrameKind = iota + 1 // of the initiator
	Reply                        // of the responder
)

const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
)

// FrameFlags are the flags of a set-up frame.
type FrameFlags uint8

const (
	FlagMarkers  FrameFlags = 0x80 // the sender wants markers in the stream that it receives
	FlagCRC      FrameFlags = 0x40 // CRCs are used in both directions if either side sets this
	FlagReject   FrameFlags = 0x20 // in a reply: no connection
	FlagEnhanced FrameFlags = 0x10 // the private data begins with Enhanced (RFC 6581)
	FlagLarge    FrameFlags = 0x08 // reserved in the RFC; Linux siw: FPDUs may be larger than the MSS

	// FlagsRNR are reserved in the RFC, too. Over shared memory they say how many RNR retries less than 7, which have
	// no end, the peer's queue pair is to make.
	FlagsRNR FrameFlags = 0x07
)

// Frame is the header of a set-up frame; PrivateLen bytes of private data follow.
//
//	 0               1               2               3
//	+---------------------------------------------------------------+
//	|                        key (16 bytes)                         |
//	+---------------+---------------+-------------------------------+
//	|M C R S  res   |      Rev      |           PD_Length           |
//	+---------------+---------------+-------------------------------+
type Frame struct {
	Kind       FrameKind
	Flags      FrameFlags
	Revision   uint8
	PrivateLen uint16
}

// Decode reads a frame's header. It returns false if the key is wrong or the private data too long.
func (f *Frame) Decode(b []byte) bool {
	if len(b) < FrameHeaderLen {
		return false
	}
	switch string(b[:16]) {
	case requestKey:
		f.Kind = Request
	case replyKey:
		f.Kind = Reply
	default:
		return false
	}
	f.Flags, f.Revision, f.PrivateLen = FrameFlags(b[16]), b[17], binary.BigEndian.Uint16(b[18:])
	return f.PrivateLen <= MaxPrivateData
}

// Append appends the header.
func (f *Frame) Append(b []byte) []byte {
	key := requestKey
	if f.Kind == Reply {
		key = replyKey
	}
	b = append(b, key...)
	b = append(b, byte(f.Flags), f.Revision)
	return binary.BigEndian.AppendUint16(b, f.PrivateLen)
}

// MaxDepth is the largest IRD and ORD. In an Enhanced it means: no automatic negotiation.
const MaxDepth = 1<<14 - 1

// Enhanced is the start of the private data of revision 2 (RFC 6581 section 6).
//
//	+---+---------------------------+---+---------------------------+
//	|A B|            IRD            |C D|            ORD            |
//	+---+---------------------------+---+---------------------------+
type Enhanced struct {
	PeerToPeer bool // A: the initiator sends a ready-to-receive message first
	RTRSend    bool // B: an empty FPDU may be that message, or a Send of no bytes
	RTRWrite   bool // C: an RDMA Write of no bytes
	RTRRead    bool // D: an RDMA Read of no bytes
	IRD        uint16
	ORD        uint16
}

// Decode reads the IRD and ORD words.
func (e *Enhanced) Decode(b []byte) bool {
	if len(b) < EnhancedLen {
		return false
	}
	ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	*e = Enhanced{PeerToPeer: ird&0x8000 != 0, RTRSend: ird&0x4000 != 0, RTRWrite: ord&0x8000 != 0,
		RTRRead: ord&0x4000 != 0, IRD: ird & MaxDepth, ORD: ord & MaxDepth}
	return true
}

// Append appends them.
func (e *Enhanced) Append(b []byte) []byte {
	ird, ord := e.IRD&MaxDepth, e.ORD&MaxDepth
	for _, f := range []struct {
		set bool
		to  *uint16
		bit uint16
	}{{e.PeerToPeer, &ird, 0x8000}, {e.RTRSend, &ird, 0x4000}, {e.RTRWrite, &ord, 0x8000}, {e.RTRRead, &ord, 0x4000}} {
		if f.set {
			*f.to |= f.bit
		}
	}
	b = binary.BigEndian.AppendUint16(b, ird)
	return binary.BigEndian.AppendUint16(b, ord)
}
