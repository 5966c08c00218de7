// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// Proposal holds the parameters that one side proposes in the set-up of a stream.
type Proposal struct {
	CRC      bool   // CRCs, which are used if either side wants them
	Markers  bool   // markers in the stream that we receive
	ULPDU    int    // limit of a ULPDU that we send, in bytes
	MSS      int    // bytes of a TCP segment
	IRD, ORD uint16 // READs and atomics that we answer at once, and that we have in flight
	FewerRNR uint8  // shared memory: how many RNR retries fewer than 7, which have no end, the peer is to make
}

// RTR is a kind of ready-to-receive message that an initiator sends.
type RTR uint8

const (
	NoRTR    RTR = iota // none
	RTRWrite            // an RDMA Write of no bytes
	RTRRead             // an RDMA Read of no bytes, whose response goes nowhere
)

// Params are the result of the negotiation.
type Params struct {
	CRC        bool
	MarkersIn  bool
	MarkersOut bool
	ULPDU      int // limit of a ULPDU that we send, in bytes
	IRD, ORD   uint16
	SendRTR    RTR  // the initiator's first message, which says that it is ready (RFC 6581 section 4)
	AwaitRTR   bool // nothing may be sent before the peer's first FPDU
	Pause      bool // nothing may be sent before that or the first Prompt
}

// Setup reads the peer's frame.
type Setup struct {
	Frame   iwarp.Frame
	Depths  iwarp.Enhanced // of an enhanced frame
	Private []byte         // the program's

	buf  [iwarp.FrameHeaderLen + iwarp.MaxPrivateData]byte
	have int
}

// Into returns where the next bytes of the frame go: as many as are known to belong to it.
func (s *Setup) Into() []byte {
	if s.have < iwarp.FrameHeaderLen {
		return s.buf[s.have:iwarp.FrameHeaderLen]
	}
	return s.buf[s.have : iwarp.FrameHeaderLen+int(s.Frame.PrivateLen)]
}

// Received handles n bytes. done means that the frame is complete, !ok that it is not of the wanted
// kind.
func (s *Setup) Received(n int, want iwarp.FrameKind) (done, ok bool) {
	before := s.have
	s.have += n
	if s.have < iwarp.FrameHeaderLen {
		return false, true
	}
	if before < iwarp.FrameHeaderLen {
		f := &s.Frame
		if !f.Decode(s.buf[:]) || f.Kind != want || f.Revision < 1 || f.Revision > 2 {
			return false, false
		}
	}
	end := iwarp.FrameHeaderLen + int(s.Frame.PrivateLen)
	if s.have < end {
		return false, true
	}
	s.Private = s.buf[iwarp.FrameHeaderLen:end]
	if s.Enhanced() {
		if !s.Depths.Decode(s.Private) {
			return false, false
		}
		s.Private = s.Private[iwarp.EnhancedLen:]
	}
	return true, true
}

// Enhanced reports whether the frame has Depths: in frames of revision 1 these bytes mean nothing.
func (s *Setup) Enhanced() bool {
	return s.Frame.Revision == 2 && s.Frame.Flags&iwarp.FlagEnhanced != 0
}

// FewerRNR returns how many RNR retries fewer than 7 the peer asks for. It means something over shared memory alone.
func (s *Setup) FewerRNR() uint8 { return uint8(s.Frame.Flags & iwarp.FlagsRNR) }

// Rejected reports whether the frame is a reply that rejects the connection.
func (s *Setup) Rejected() bool { return s.Frame.Flags&iwarp.FlagReject != 0 }

// MaxPrivate is the limit of the program's private data in a frame, in bytes.
const MaxPrivate = iwarp.MaxPrivateData - iwarp.EnhancedLen

func (w *Proposal) flags() iwarp.FrameFlags {
	f := iwarp.FlagLarge
	if w.CRC {
		f |= iwarp.FlagCRC
	}
	if w.Markers {
		f |= iwarp.FlagMarkers
	}
	return f | iwarp.FrameFlags(w.FewerRNR)&iwarp.FlagsRNR
}

// AppendRequest appends the frame of an initiator.
func AppendRequest(b []byte, w *Proposal, private []byte) []byte {
	f := iwarp.Frame{Kind: iwarp.Request, Flags: w.flags() | iwarp.FlagEnhanced, Revision: 2,
		PrivateLen: uint16(iwarp.EnhancedLen + len(private))}
	e := iwarp.Enhanced{PeerToPeer: true, RTRWrite: true, RTRRead: w.ORD > 0, IRD: w.IRD, ORD: w.ORD}
	return append(e.Append(f.Append(b)), private...)
}

// params combines the flags of both frames and the depths of the peer.
func (s *Setup) params(w *Proposal) Params {
	f := s.Frame.Flags
	p := Params{CRC: w.CRC || f&iwarp.FlagCRC != 0, MarkersIn: w.Markers, MarkersOut: f&iwarp.FlagMarkers != 0,
		IRD: w.IRD, ORD: w.ORD}
	if s.Enhanced() {
		p.ORD = min(w.ORD, s.Depths.IRD)
	}
	p.ULPDU = w.ulpdu(f&iwarp.FlagLarge != 0, p.MarkersOut)
	return p
}

// maxMarkedULPDU limits ULPDUs with markers, whose FPDUs are assembled in one buffer.
const maxMarkedULPDU = 16 << 10

// ulpdu returns the limit of ULPDUs. A peer that does not announce that it accepts large FPDUs
// gets FPDUs that fit a TCP segment (RFC 5044 section 4.5).
func (w *Proposal) ulpdu(large, marked bool) int {
	n := min(w.ULPDU, maxULPDU)
	if !large || marked {
		n = min(n, ULPDUFor(max(w.MSS, 536)))
		if marked {
			n = min(n, maxMarkedULPDU)
			n -= (n/iwarp.MarkerInterval + 2) * iwarp.MarkerLen
		}
	}
	return n
}

// ULPDUFor returns the longest ULPDU whose FPDU has no more than n bytes.
func ULPDUFor(n int) int { return min(n&^3-iwarp.LengthLen-iwarp.CRCLen, maxULPDU) }

// MaxULPDU is the longest ULPDU that this engine sends.
const MaxULPDU = maxULPDU

// Replied returns the consequences of the reply, for the initiator. A cause other than zero means
// that the stream cannot be used.
func (s *Setup) Replied(w *Proposal) (Params, iwarp.Cause) {
	p := s.params(w)
	if s.Enhanced() {
		if s.Depths.ORD > w.IRD && s.Depths.ORD != iwarp.MaxDepth {
			return p, iwarp.MPAInsufficientIRD
		}
		switch d := &s.Depths; {
		case !d.PeerToPeer:
		case d.RTRWrite:
			p.SendRTR = RTRWrite
		case d.RTRRead && p.ORD > 0:
			p.SendRTR = RTRRead
		default:
			return p, iwarp.MPANoRTR
		}
	}
	return p, 0
}

// AppendTerminate appends the Terminate of an initiator that cannot use the stream
// (RFC 6581 section 9).
func AppendTerminate(b []byte, p *Params, cause iwarp.Cause) []byte {
	h := iwarp.Header{DDP: iwarp.DDPVersion, RDMAP: iwarp.RDMAPVersion, Last: true, Opcode: iwarp.OpTerminate,
		Queue: iwarp.QueueTerminate, MSN: 1}
	body := (&iwarp.Terminate{Cause: cause}).Append(nil)
	start, n := len(b), h.Len()+len(body)
	if p.MarkersOut {
		b = iwarp.Marker(0).Append(b)
	}
	b = append(h.Append(binary.BigEndian.AppendUint16(b, uint16(n))), body...)
	b = append(b, make([]byte, iwarp.PadLen(n)+iwarp.CRCLen)...)
	if end := len(b) - iwarp.CRCLen; p.CRC {
		iwarp.PutCRC(b[end:], iwarp.UpdateCRC(0, b[start:end]))
	}
	return b
}

// Accept appends the reply of a responder that accepts the connection. It returns false if there is
// no ready-to-receive message that both sides know; then the reply is a rejection.
//
// A responder must not send before the initiator has (RFC 5044 section 7.1.3). Peers that do not
// use the peer-to-peer model of RFC 6581 do not follow that rule. Neither do we towards them,
// because our message may have to be the first. We pause before it, because they may not be ready
// to receive before they have seen the reply.
func (s *Setup) Accept(b []byte, w *Proposal, private []byte) ([]byte, Params, bool) {
	p := s.params(w)
	f := iwarp.Frame{Kind: iwarp.Reply, Flags: w.flags(), Revision: s.Frame.Revision, PrivateLen: uint16(len(private))}
	if p.CRC {
		f.Flags |= iwarp.FlagCRC
	}
	if !s.Enhanced() {
		p.Pause = true
		return append(f.Append(b), private...), p, true
	}
	e := iwarp.Enhanced{IRD: w.IRD, ORD: p.ORD}
	if d := &s.Depths; d.PeerToPeer {
		e.PeerToPeer = true
		switch {
		case d.RTRWrite:
			e.RTRWrite = true
		case d.RTRRead && w.IRD > 0:
			e.RTRRead = true
		case d.RTRSend:
			e.RTRSend = true
		default:
			return s.Reject(b, nil), p, false
		}
		p.AwaitRTR = true
	}
	p.Pause = !p.AwaitRTR
	f.Flags |= iwarp.FlagEnhanced
	f.PrivateLen += iwarp.EnhancedLen
	return append(e.Append(f.Append(b)), private...), p, true
}

// Reject appends the reply of a responder that rejects the connection.
func (s *Setup) Reject(b []byte, private []byte) []byte {
	f := iwarp.Frame{Kind: iwarp.Reply, Flags: iwarp.FlagReject, Revision: s.Frame.Revision,
		PrivateLen: uint16(len(private))}
	if s.Enhanced() {
		f.Flags |= iwarp.FlagEnhanced
		f.PrivateLen += iwarp.EnhancedLen
		return append((&iwarp.Enhanced{}).Append(f.Append(b)), private...)
	}
	return append(f.Append(b), private...)
}
