// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// A ring carries messages one way, from one [Sender] to one [Receiver]. It is a segment:
//
//	0     head: bytes that the receiver has done with, ever
//	8     whether the sender sleeps until head changes
//	128   tail: bytes that the sender has published, ever
//	136   whether the receiver sleeps until tail changes
//	256   the messages, in a power of two of bytes
//
// A message is a header of 8 bytes and the body, filled up to a multiple of 8. A message is in one
// piece: what is left before the end is skipped if the next one does not fit there. The two cache
// lines of each side keep the sides from slowing each other down.
//
// Each side stores what the other waits for, and then loads whether the other sleeps; or stores that it
// sleeps, and then loads what it waits for. The load must not come before the store. Stores are swaps
// here, because the race detector's stores do not keep that order.
type ring struct {
	head, tail           *uint64
	awaitHead, awaitTail *uint32
	data                 []byte
}

const (
	ringHeader   = 256 // bytes before the messages
	recordHeader = 8
	skipped      = 1 << 31 // in the length of a header: no message, the rest up to the end
)

// ErrCorrupt means that the peer has broken the rules of a ring, which is of no more use.
var ErrCorrupt = errors.New("the peer has damaged the shared memory")

// RingSize returns how large a segment a ring needs that holds capacity bytes, a power of two.
func RingSize(capacity int) int { return ringHeader + capacity }

// ringOf finds a ring in a segment. Only the segment's first bytes are used if it is larger than
// what [RingSize] says.
func ringOf(mem []byte, capacity int) (ring, error) {
	if capacity < 64 || capacity&(capacity-1) != 0 || len(mem) < RingSize(capacity) {
		return ring{}, fmt.Errorf("no ring of %d bytes is in a segment of %d", capacity, len(mem))
	}
	return ring{head: word(mem, 0), awaitHead: half(mem, 8), tail: word(mem, 128), awaitTail: half(mem, 136),
		data: mem[ringHeader:][:capacity]}, nil
}

func word(mem []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&mem[at])) }
func half(mem []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&mem[at])) }

// record returns what a message of n bytes takes.
func record(n int) uint64 { return uint64(recordHeader+n+7) &^ 7 }

// Sender is the writing end of a ring.
type Sender struct {
	ring
	next     uint64 // where the next message goes; published up to *tail
	seen     uint64 // head, when it was last looked at
	reserved uint64 // bytes that Reserve took, with what is skipped
}

// NewSender returns the writing end of a new ring. One ring has one.
func NewSender(mem []byte, capacity int) (*Sender, error) {
	r, err := ringOf(mem, capacity)
	return &Sender{ring: r}, err
}

// MaxMessage is the length of the longest message that always fits in an empty ring.
func (s *Sender) MaxMessage() int { return len(s.data)/2 - recordHeader }

// Reserve returns room for the body of a message of n bytes, at most MaxMessage. nil: there is none
// at present. kind goes with the message. The message leaves with [Sender.Publish]; without that
// the next Reserve takes the room again.
func (s *Sender) Reserve(n int, kind uint32) ([]byte, error) {
	if n < 0 || n > s.MaxMessage() {
		return nil, fmt.Errorf("a message of %d bytes: the ring takes %d", n, s.MaxMessage())
	}
	size := uint64(len(s.data))
	off, need := s.next&(size-1), record(n)
	skip := uint64(0)
	if off+need > size {
		skip = size - off
	}
	if s.next+skip+need-s.seen > size {
		s.seen = atomic.LoadUint64(s.head)
		if used := s.next - s.seen; used > size {
			return nil, ErrCorrupt
		}
		if s.next+skip+need-s.seen > size {
			return nil, nil
		}
	}
	if skip > 0 {
		s.put(off, skipped, 0)
		off = 0
	}
	s.put(off, uint32(n), kind)
	s.reserved = skip + need
	return s.data[off+recordHeader:][:n:n], nil
}

func (s *Sender) put(off uint64, length, kind uint32) {
	*half(s.data, int(off)), *half(s.data, int(off)+4) = length, kind
}

// Publish sends the message that was reserved last. It returns true if the receiver sleeps and is
// to be woken.
func (s *Sender) Publish() (wake bool) {
	s.next += s.reserved
	s.reserved = 0
	atomic.SwapUint64(s.tail, s.next)
	return atomic.LoadUint32(s.awaitTail) != 0 && atomic.SwapUint32(s.awaitTail, 0) != 0
}

// Position returns where the next message goes: the sum of what was published before.
func (s *Sender) Position() uint64 { return s.next }

// Done returns the position up to which the receiver has done with what was published.
func (s *Sender) Done() (uint64, error) {
	s.seen = atomic.LoadUint64(s.head)
	if s.next-s.seen > uint64(len(s.data)) {
		return 0, ErrCorrupt
	}
	return s.seen, nil
}

// Stirred reports whether the receiver has done with messages since that was last looked at.
func (s *Sender) Stirred() bool { return atomic.LoadUint64(s.head) != s.seen }

// Sleep has the receiver wake this side when it has done with messages. It returns false, and the
// receiver need not, if it has done so since the last Reserve.
func (s *Sender) Sleep() bool { return sleep(s.awaitHead, s.head, s.seen) }

// sleep notes in flag that this side sleeps until at changes from was.
func sleep(flag *uint32, at *uint64, was uint64) bool {
	atomic.SwapUint32(flag, 1)
	if atomic.LoadUint64(at) == was {
		return true
	}
	atomic.StoreUint32(flag, 0)
	return false
}

// Receiver is the reading end of a ring.
type Receiver struct {
	ring
	next   uint64 // where the next message is
	seen   uint64 // tail, when it was last looked at
	length uint64 // bytes of the message that Peek returned, with its header
}

// NewReceiver returns the reading end of a new ring. One ring has one.
func NewReceiver(mem []byte, capacity int) (*Receiver, error) {
	r, err := ringOf(mem, capacity)
	return &Receiver{ring: r}, err
}

// Peek returns the oldest message, which stays until [Receiver.Release]; ok is false if there is
// none. The peer can change the body all the time: what must not change is copied before it is
// checked.
func (r *Receiver) Peek() (body []byte, kind uint32, ok bool, err error) {
	size := uint64(len(r.data))
	for {
		if r.next == r.seen {
			r.seen = atomic.LoadUint64(r.tail)
			if r.next == r.seen {
				return nil, 0, false, nil
			}
		}
		off, there := r.next&(size-1), r.seen-r.next
		if there > size || there%8 != 0 {
			return nil, 0, false, ErrCorrupt
		}
		length := atomic.LoadUint32(half(r.data, int(off)))
		if length == skipped {
			if size-off > there || off == 0 {
				return nil, 0, false, ErrCorrupt
			}
			r.next += size - off
			continue
		}
		n := record(int(length))
		if length >= skipped || n > there || n > size-off {
			return nil, 0, false, ErrCorrupt
		}
		r.length = n
		return r.data[off+recordHeader:][:length:length], atomic.LoadUint32(half(r.data, int(off)+4)), true, nil
	}
}

// Release gives back the message that Peek returned. It returns true if the sender sleeps and is to
// be woken.
func (r *Receiver) Release() (wake bool) {
	r.next += r.length
	r.length = 0
	atomic.SwapUint64(r.head, r.next)
	return atomic.LoadUint32(r.awaitHead) != 0 && atomic.SwapUint32(r.awaitHead, 0) != 0
}

// Stirred reports whether a message was published since that was last looked at.
func (r *Receiver) Stirred() bool { return atomic.LoadUint64(r.tail) != r.seen }

// look takes note of what was published.
func (r *Receiver) look() { r.seen = atomic.LoadUint64(r.tail) }

// left reports whether there are messages that were seen and not released.
func (r *Receiver) left() bool { return r.next != r.seen }

// Sleep has the sender wake this side with the next message. It returns false, and the sender need
// not, if one was published since that was last looked at.
func (r *Receiver) Sleep() bool { return sleep(r.awaitTail, r.tail, r.seen) }
