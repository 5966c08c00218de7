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
//	16    how often the receiver had no receive for a message, ever: RNR NAKs
//	128   whether the receiver sleeps until a message comes
//	256   the messages, in a power of two of bytes
//
// A message is a header of 8 bytes and the body, filled up to a multiple of 8. A message is in one
// piece: the rest before the end is skipped if the next message does not fit there. A header that is
// not 0 says that the message is there. Before a message is published, the place of the next header is
// 0. So the receiver looks at nothing but where the next message will be, and a short message costs the
// transfer of one cache line.
//
// Each side stores the position that the other waits for, and then loads whether the other sleeps; or stores
// that it sleeps, and then loads the position. The load must not come before the store. Stores are swaps
// here, because the race detector's stores do not keep that order.
type ring struct {
	head                 *uint64
	notReady             *uint64
	awaitHead, awaitTail *uint32
	data                 []byte
}

const (
	ringHeader   = 256 // bytes before the messages
	recordHeader = 8
	skipped      = 1 << 31 // in the length of a header: no message, the rest up to the end
	there        = 1 << 30 // in the length of every header
)

// ErrCorrupt means that the peer has broken the rules of a ring, which is of no more use.
var ErrCorrupt = errors.New("the peer has damaged the shared memory")

// RingSize returns how large a segment a ring needs that holds capacity bytes, a power of two.
func RingSize(capacity int) int { return ringHeader + capacity }

// ringOf finds a ring in a segment. Of a segment that is larger than [RingSize] only the first bytes are
// used.
func ringOf(mem []byte, capacity int) (ring, error) {
	if capacity < 64 || capacity&(capacity-1) != 0 || len(mem) < RingSize(capacity) {
		return ring{}, fmt.Errorf("no ring of %d bytes is in a segment of %d", capacity, len(mem))
	}
	return ring{head: word(mem, 0), notReady: word(mem, 16), awaitHead: half(mem, 8), awaitTail: half(mem, 128),
		data: mem[ringHeader:][:capacity]}, nil
}

func word(mem []byte, at int) *uint64 { return (*uint64)(unsafe.Pointer(&mem[at])) }
func half(mem []byte, at int) *uint32 { return (*uint32)(unsafe.Pointer(&mem[at])) }

// record returns the length of the record of a message of n bytes.
func record(n int) uint64 { return uint64(recordHeader+n+7) &^ 7 }

// at returns the header at a position.
func (r *ring) at(position uint64) *uint64 {
	return (*uint64)(unsafe.Pointer(&r.data[position&uint64(len(r.data)-1)]))
}

// Sender is the writing end of a ring.
type Sender struct {
	ring
	next   uint64 // where the next message goes; all messages before are published
	seen   uint64 // head, when it was last looked at
	start  uint64 // of the message that Reserve made room for: next, or behind skipped bytes
	end    uint64 // of it
	header uint64 // of it
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
	start := s.next
	if rest := size - start&(size-1); record(n) > rest {
		start += rest
	}
	end := start + record(n)
	if end+recordHeader-s.seen > size { // the next header has room, too
		s.seen = atomic.LoadUint64(s.head)
		if used := s.next - s.seen; used > size {
			return nil, ErrCorrupt
		}
		if end+recordHeader-s.seen > size {
			return nil, nil
		}
	}
	s.start, s.end, s.header = start, end, uint64(kind)<<32|there|uint64(n)
	return s.data[start&(size-1)+recordHeader:][:n:n], nil
}

// Publish sends the message that was reserved last. It returns true if the receiver sleeps and is
// to be woken.
func (s *Sender) Publish() (wake bool) {
	*s.at(s.end) = 0
	atomic.SwapUint64(s.at(s.start), s.header)
	if s.start != s.next {
		atomic.SwapUint64(s.at(s.next), skipped|there)
	}
	s.next = s.end
	return atomic.LoadUint32(s.awaitTail) != 0 && atomic.SwapUint32(s.awaitTail, 0) != 0
}

// Position returns where the next message goes: the sum of the bytes published before.
func (s *Sender) Position() uint64 { return s.next }

// Done returns the position up to which the receiver is done with messages.
func (s *Sender) Done() (uint64, error) {
	s.seen = atomic.LoadUint64(s.head)
	if s.next-s.seen > uint64(len(s.data)) {
		return 0, ErrCorrupt
	}
	return s.seen, nil
}

// Unacknowledged reports whether there are messages that the receiver had not consumed at the last look at its head.
func (s *Sender) Unacknowledged() bool { return s.next != s.seen }

// Acknowledged reports whether the receiver has consumed messages since the last look at its head.
func (s *Sender) Acknowledged() bool { return atomic.LoadUint64(s.head) != s.seen }

// Sleep asks the receiver to wake this side when it consumes messages. It returns false, and asks for nothing,
// if the receiver has consumed some since the last Reserve.
func (s *Sender) Sleep() bool {
	atomic.SwapUint32(s.awaitHead, 1)
	if !s.Acknowledged() {
		return true
	}
	atomic.StoreUint32(s.awaitHead, 0)
	return false
}

// Flight returns how many bytes the receiver has not done with, as it says. Unlike Done it takes no note of that.
func (s *Sender) Flight() int {
	return int(min(s.next-atomic.LoadUint64(s.head), uint64(len(s.data))))
}

// NotReady returns how many RNR NAKs the receiver has counted.
func (s *Sender) NotReady() uint64 { return atomic.LoadUint64(s.notReady) }

// Receiver is the reading end of a ring.
type Receiver struct {
	ring
	next   uint64 // where the next message is
	given  uint64 // head, as it was last stored
	header uint64 // of the message that Peek returned and that was not released; 0: none
	length uint64 // bytes of it, with its header
	seen   bool   // the next message was there when that was last looked at, and not taken
}

// NewReceiver returns the reading end of a new ring. One ring has one.
func NewReceiver(mem []byte, capacity int) (*Receiver, error) {
	r, err := ringOf(mem, capacity)
	return &Receiver{ring: r}, err
}

// CountNotReady counts RNR NAKs.
func (r *Receiver) CountNotReady(n uint64) { atomic.AddUint64(r.notReady, n) }

// Peek returns the oldest message, which stays until [Receiver.Release]; ok is false if there is
// none. Until then its kind and its length stay the same: a peer that changes them has broken the
// rules. The peer can change the body all the time: fields that must not change are copied before
// they are checked.
func (r *Receiver) Peek() (body []byte, kind uint32, ok bool, err error) {
	size := uint64(len(r.data))
	for {
		header := atomic.LoadUint64(r.at(r.next))
		if r.header != 0 && header != r.header {
			return nil, 0, false, ErrCorrupt
		}
		if header == 0 {
			return nil, 0, false, nil
		}
		off, length := r.next&(size-1), uint32(header)
		if length == skipped|there && off != 0 {
			r.next += size - off
			continue
		}
		length ^= there
		if length >= there || record(int(length)) > size-off {
			return nil, 0, false, ErrCorrupt
		}
		r.header, r.length = header, record(int(length))
		return r.data[off+recordHeader:][:length:length], uint32(header >> 32), true, nil
	}
}

// Release takes the message that Peek returned. The sender learns of it with [Receiver.Return], or before
// that if it may need the room. Release returns true if the sender sleeps and is to be woken.
func (r *Receiver) Release() (wake bool) {
	r.next += r.length
	r.header, r.length, r.seen = 0, 0, false
	return r.next-r.given >= uint64(len(r.data)/4) && r.Return()
}

// Return gives released messages back. It returns true if the sender sleeps and is to be woken.
func (r *Receiver) Return() (wake bool) {
	if r.given == r.next {
		return false
	}
	r.given = r.next
	atomic.SwapUint64(r.head, r.next)
	return atomic.LoadUint32(r.awaitHead) != 0 && atomic.SwapUint32(r.awaitHead, 0) != 0
}

// arrived reports whether the next message is there.
func (r *Receiver) arrived() bool { return atomic.LoadUint64(r.at(r.next)) != 0 }

// Pending reports whether the next message has arrived since the last look.
func (r *Receiver) Pending() bool { return !r.seen && r.arrived() }

// look takes note of whether the next message is there.
func (r *Receiver) look() { r.seen = r.arrived() }

// left reports whether there is a message that was seen and not released.
func (r *Receiver) left() bool { return r.seen }

// Sleep asks the sender to wake this side with the next message. It returns false, and asks for nothing, if one
// has arrived since the last look.
func (r *Receiver) Sleep() bool {
	atomic.SwapUint32(r.awaitTail, 1)
	if !r.Pending() {
		return true
	}
	atomic.StoreUint32(r.awaitTail, 0)
	return false
}
