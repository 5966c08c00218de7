// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Wire is the encapsulation of a queue pair's packets on the wire.
type Wire uint8

// The forms of packets.
const (
	RoCEv2 Wire = iota + 1
	RoCEv1
	InfiniBand
	IWARP // a packet is a DDP segment
)

const (
	// ringSize is how many packets a [Ring] keeps that a watcher has made.
	ringSize = 512
	// headLen is how many bytes of a packet it keeps: all headers that there are.
	headLen = 96
)

// Address is one end of a packet's path.
type Address struct {
	GID  verbs.GID // or an IP address, as a GID
	LID  uint16    // on InfiniBand
	Port uint16    // of TCP
}

// Packet is a packet that a queue pair sent or received, without its payload.
type Packet struct {
	At          int64 // nanoseconds since 1970
	Sent        bool
	Local, Peer Address
	Length      int    // bytes from the BTH to the ICRC; of a DDP segment, from its header to the end of its payload
	Head        []byte // the headers; of segments that are control messages, all of them
	Comment     string // such as which faults were injected; mostly empty
}

// ringSlot is a Packet in a ring.
type ringSlot struct {
	Packet
	n    int
	head [headLen]byte
}

// Ring keeps the last packets of a queue pair. A device adds packets with its lock held; the ring's own is
// held for some microseconds at most.
type Ring struct {
	// Of the device, which sets these before it adds packets.
	Wire   Wire
	Locals []Address // by port number - 1

	mu    sync.Mutex
	seen  uint64 // packets that were added
	slots []ringSlot
}

func newRing(size int) *Ring { return &Ring{slots: make([]ringSlot, size)} }

// Add adds a packet. Bytes beyond the longest headers are cut off.
func (r *Ring) Add(p *Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.slots[r.seen%uint64(len(r.slots))]
	r.seen++
	k.Packet = *p
	k.Head = nil
	k.n = copy(k.head[:], p.Head)
}

// Seen returns how many packets were added.
func (r *Ring) Seen() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// Comment gives the packets that were added after the first seen ones a comment.
func (r *Ring) Comment(seen uint64, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.slots))
	for i := max(seen, r.seen-min(r.seen, size)); i < r.seen; i++ {
		r.slots[i%size].Comment = text
	}
}

// Last returns the last packets, most at most, the oldest first, and how many there were since the ring was made.
func (r *Ring) Last(most int) (list []Packet, seen uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.slots))
	n := min(uint64(max(most, 0)), r.seen, size)
	list = make([]Packet, n)
	heads := make([]byte, 0, n*headLen)
	for i := range list {
		k := &r.slots[(r.seen-n+uint64(i))%size]
		heads = append(heads, k.head[:k.n]...)
		list[i] = k.Packet
		list[i].Head = heads[len(heads)-k.n:]
	}
	return list, r.seen
}

// PacketSource is a driver whose queue pairs can be captured.
type PacketSource interface {
	// CapturePackets has the packets of a queue pair added to a ring from now on; nil: no longer. It does not
	// wait for the device.
	CapturePackets(n verbs.QPN, r *Ring) error
}
