// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"net/netip"
	"time"
)

// Stream records the bytes of a connection as TCP segments. The segments are synthetic: their
// bytes, order and times are real, but their boundaries and acknowledgements are not the wire's.
// Nothing is lost or retransmitted in them, so a reader reassembles the stream as the program
// saw it.
//
// A Stream is for one goroutine at a time. Bytes that the [Writer] drops are missing in the stream, as
// with a capture that could not keep up. The Writer reports errors when it is closed.
type Stream struct {
	w           *Writer
	local, peer netip.AddrPort
	sent, rcvd  uint32 // sequence numbers of the next byte of each direction
	out, in     bool   // the direction has ended
	comment     string // of the bytes that are recorded next
}

// Stream begins the recording of a connection between two addresses, with the TCP handshake. dialed
// says that this side opened it. The handshake shows readers where the stream begins.
func (w *Writer) Stream(local, peer netip.AddrPort, dialed bool) *Stream {
	s := &Stream{w: w, local: local, peer: peer}
	s.segment(dialed, SYN, nil)
	s.segment(!dialed, SYN|ACK, nil)
	s.segment(dialed, ACK, nil)
	return s
}

// SetComment sets the comment of the segments with bytes that are recorded from now on, at most 65,535 bytes; empty:
// they have none.
func (s *Stream) SetComment(text string) { s.comment = text }

// Sent records bytes that were written.
func (s *Stream) Sent(parts ...[]byte) { s.data(true, parts) }

// Received records bytes that were read.
func (s *Stream) Received(parts ...[]byte) { s.data(false, parts) }

// SentEnd records that nothing more is sent.
func (s *Stream) SentEnd() { s.end(true, FIN|ACK) }

// ReceivedEnd records that nothing more comes.
func (s *Stream) ReceivedEnd() { s.end(false, FIN|ACK) }

// Aborted records that this side has dropped the connection.
func (s *Stream) Aborted() {
	s.end(true, RST|ACK)
	s.in = true
}

func (s *Stream) data(sent bool, parts [][]byte) {
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), maxSegment)
			s.segment(sent, PSH|ACK, p[:n])
			p = p[n:]
		}
	}
}

// end ends a direction, once.
func (s *Stream) end(sent bool, flags TCPFlags) {
	ended := &s.in
	if sent {
		ended = &s.out
	}
	if !*ended {
		*ended = true
		s.segment(sent, flags, nil)
	}
}

// segment records a segment, and advances the sequence number (RFC 9293 section 3.4).
func (s *Stream) segment(sent bool, flags TCPFlags, payload []byte) {
	h := TCP{At: time.Now(), Src: s.local, Dst: s.peer, Seq: s.sent, Flags: flags, Direction: Outbound}
	next, ack := &s.sent, s.rcvd
	if !sent {
		h.Src, h.Dst, h.Seq, h.Direction = s.peer, s.local, s.rcvd, Inbound
		next, ack = &s.rcvd, s.sent
	}
	if flags&ACK != 0 {
		h.Ack = ack
	}
	if len(payload) > 0 {
		h.Comment = s.comment
	}
	s.w.WriteTCP(&h, payload)
	*next += uint32(len(payload))
	if flags&(SYN|FIN) != 0 {
		*next++
	}
}
