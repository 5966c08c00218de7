// SPDX-License-Identifier: Apache-2.0

package rsocket

import "fmt"

// recvState is the receive ring. Its halves are offered to the peer in turn, each when the program
// has consumed as many bytes.
type recvState struct {
	size    int
	head    int // where the next byte that the program reads is
	avail   int // bytes to read
	offered int // bytes that the peer may still write
	freed   int // bytes consumed and not yet offered again
	next    int // where the next half begins

	seq     uint16 // data messages received
	granted uint16 // the sequence number up to which the peer may send
	credits uint16
}

func (r *recvState) init(cfg *Config) {
	half := cfg.RecvBuf / 2
	*r = recvState{size: 2 * half, offered: half, freed: half, next: half, credits: uint16(cfg.Credits),
		granted: uint16(cfg.Credits)}
}

// data records n bytes that the peer has written.
func (r *recvState) data(n int) error {
	if n > r.offered {
		return fmt.Errorf("%w: it wrote %d bytes where %d were free", ErrProtocol, n, r.offered)
	}
	if err := r.message(); err != nil {
		return err
	}
	r.offered -= n
	r.avail += n
	return nil
}

// message counts a message that uses a credit.
func (r *recvState) message() error {
	if r.seq == r.granted {
		return fmt.Errorf("%w: it sent more messages than it was granted", ErrProtocol)
	}
	r.seq++
	return nil
}

// due reports whether to tell the peer of free memory, or of credits of which it has used half.
func (r *recvState) due() bool {
	return r.freed >= r.size/2 || int(int16(r.granted-r.seq)) <= int(r.credits)/2
}

// grant returns the sequence number up to which the peer may send from now on. A received message
// takes no space, so its credit comes back at once.
func (r *recvState) grant() uint16 {
	r.granted = r.seq + r.credits
	return r.granted
}

func (r *recvState) nextBuffer(cfg *Config) (SGE, bool) {
	half := r.size / 2
	if r.freed < half {
		return SGE{}, false
	}
	e := SGE{cfg.Ring.Addr + uint64(r.next), cfg.Ring.Key, uint32(half)}
	r.freed -= half
	r.offered += half
	r.next = half - r.next
	return e, true
}

// Readable returns the bytes of the receive ring that can be read next.
func (s *Stream) Readable() (off, n int) {
	r := &s.recv
	return r.head, min(r.avail, r.size-r.head)
}

// Consume frees n bytes that Readable returned.
func (s *Stream) Consume(n int) {
	r := &s.recv
	r.avail -= n
	r.freed += n
	if r.head += n; r.head == r.size {
		r.head = 0
	}
}

// Wrapped returns how many bytes can be read after Readable's, from the ring's beginning on.
func (s *Stream) Wrapped() int {
	r := &s.recv
	return max(0, r.avail-(r.size-r.head))
}
