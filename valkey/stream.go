// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"errors"
	"fmt"
	"math"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// ErrProtocol is in the error of a connection whose peer sent a message that the protocol does not allow.
var ErrProtocol = errors.New("the peer broke the protocol of Valkey over RDMA")

// maxAnswers bounds how many questions for features wait for room to be answered.
const maxAnswers = 16

// stream is the protocol of one side of a connection, without clock, lock or queue pair: which bytes
// of the receive buffer are the program's, where the peer has room, which messages are due.
type stream struct {
	server  bool // this side answers questions for features
	in      halves
	out     window
	answers []Message // to questions of the peer, that are due
	beat    bool      // a keep-alive is due
}

// halves is a receive buffer. The peer fills one half while the program reads the other. Halves are
// numbered through: half n is the first one of the buffer if n is even.
type halves struct {
	remote     verbs.Remote // of the first byte
	size       int          // bytes of a half
	filling    int          // the half that the peer fills, or will
	registered bool         // and that it knows
	filled     int          // bytes in it
	reading    int          // the half that the program reads
	pos        int          // bytes of it that were read
}

// written takes note of n bytes that the peer says it has written.
func (h *halves) written(n uint32) error {
	switch room := h.size - h.filled; {
	case n == 0:
	case !h.registered:
		return fmt.Errorf("%w: %d bytes more than fit the buffer that was registered", ErrProtocol, n)
	case uint64(n) > uint64(room):
		return fmt.Errorf("%w: %d bytes where %d have room", ErrProtocol, n, room)
	}
	if h.filled += int(n); h.filled == h.size {
		h.filling, h.filled, h.registered = h.filling+1, 0, false
	}
	return nil
}

// readable returns where in the buffer there are bytes to read, and how many.
func (h *halves) readable() (off, n int) {
	off, n = h.reading%2*h.size+h.pos, h.filled-h.pos
	if h.reading < h.filling {
		n = h.size - h.pos
	}
	return off, n
}

// consume records that the program has read n of the readable bytes.
func (h *halves) consume(n int) {
	if h.pos += n; h.pos == h.size {
		h.reading, h.pos = h.reading+1, 0
	}
}

// register returns the message that registers the next half, if the program has read the bytes in it.
func (h *halves) register() (m Message, due bool) {
	if h.registered || h.filling-h.reading > 1 {
		return m, false
	}
	h.registered = true
	at := h.remote.At(uint64(h.filling % 2 * h.size))
	return Message{Opcode: RegisterXferMemory, Addr: at.Addr, Length: uint32(h.size), Key: uint32(at.Key)}, true
}

// window is the peer's buffer. Nothing of its size is allocated here.
type window struct {
	remote verbs.Remote
	length uint32
	offset uint32
}

func (w *window) register(m *Message) error {
	switch {
	case m.Length == 0:
		return fmt.Errorf("%w: it registers a buffer of 0 bytes", ErrProtocol)
	case m.Addr > math.MaxUint64-uint64(m.Length):
		return fmt.Errorf("%w: it registers %d bytes at %#x, beyond the last address", ErrProtocol, m.Length, m.Addr)
	}
	*w = window{remote: verbs.Remote{Addr: m.Addr, Key: verbs.Key(m.Key)}, length: m.Length}
	return nil
}

// room returns how many bytes can be written.
func (w *window) room() int { return int(min(uint64(w.length-w.offset), math.MaxInt32)) }

// take returns the room for the next n bytes.
func (w *window) take(n int) verbs.Remote {
	at := w.remote.At(uint64(w.offset))
	w.offset += uint32(n)
	return at
}

// handleMessage takes a control message of the peer.
func (s *stream) handleMessage(b []byte) error {
	var m Message
	if !m.Decode(b) {
		return fmt.Errorf("%w: a message of %d bytes, it has %d", ErrProtocol, len(b), MessageSize)
	}
	switch m.Opcode {
	case Keepalive:
	case GetServerFeature, SetClientFeature:
		return s.handleFeature(&m)
	case RegisterXferMemory:
		return s.out.register(&m)
	default:
		return fmt.Errorf("%w: %v", ErrProtocol, m.Opcode)
	}
	return nil
}

// handleFeature takes a message about features, of which there are none yet. An answer has the opcode
// of the question, so that a client that answered would never come to an end.
func (s *stream) handleFeature(m *Message) error {
	switch {
	case !s.server:
	case m.Opcode == GetServerFeature && len(s.answers) == maxAnswers:
		return fmt.Errorf("%w: more than %d questions for features at once", ErrProtocol, maxAnswers)
	case m.Opcode == GetServerFeature:
		s.answers = append(s.answers, Message{Opcode: GetServerFeature, Select: m.Select})
	case m.Features != 0:
		return fmt.Errorf("%w: it sets features %#x of %d, and none was offered", ErrProtocol, m.Features, m.Select)
	}
	return nil
}

// nextMessage returns a control message that is due.
func (s *stream) nextMessage() (m Message, due bool) {
	if m, due = s.in.register(); due {
		return m, true
	}
	if len(s.answers) > 0 {
		m, s.answers = s.answers[0], s.answers[1:]
		return m, true
	}
	if s.beat {
		s.beat = false
		return Message{Opcode: Keepalive}, true
	}
	return m, false
}
