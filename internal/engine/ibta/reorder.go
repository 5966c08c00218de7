// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Out-of-order packets are kept, and handled when the missing ones have come, as if all had arrived in order: a
// program sees the order that IBTA 9.5 demands. So a late packet need not be retransmitted, and after a lost
// one only that.
//
// Whether a missing packet is late or lost shows only afterwards. At first it counts as lost, and
// a NAK is sent at once. As soon as one turns out to have been late, the next missing ones are given time.

const (
	// maxReorder limits the bytes that are kept of a queue pair's requests, and of responses to it.
	maxReorder = 2 << 20
	// maxReorderLane limits the bytes of all queue pairs of a lane. A peer's queue pairs may take as many as they
	// leave free: one peer half of the limit, each of two peers a third. So there is room for the next peer.
	maxReorderLane = 64 << 20
	// maxAhead is how far ahead of the expected PSN a request may be to be kept. It must not make
	// the PSN easy to guess for forgers.
	maxAhead = 1024
	// keptOverhead is the cost of a kept packet beyond its payload.
	keptOverhead = 256
	// maxSpare limits the memory that is kept for later packets.
	maxSpare = 1 << 20
	// maxTolerance is the longest time that a packet may be late: less than a requester waits for an
	// acknowledgement.
	maxTolerance = clock.Time(4 * time.Millisecond)
	// minTolerance is the shortest time worth waiting.
	minTolerance = clock.Time(50 * time.Microsecond)
	// keptIndex is the number of packets up to which a queue pair keeps an empty index.
	keptIndex = 128
)

// reorderBuffer keeps packets that arrived out of order: requests at a responder, responses at a requester.
type reorderBuffer struct {
	kept  map[ib.PSN]*keptPacket
	bytes int
	peer  PathKey // whose packets they are, if there are any
	grown bool    // kept has had more than keptIndex
	gap   gap

	acked ib.PSN // requester: an acknowledgement that came before a response; valid if ack is set
	ack   bool   // there was one
}

// keptPacket is a packet with a copy of its payload.
type keptPacket struct {
	ib.Packet
	memory []byte
}

// reorderMemory counts the memory of out-of-order packets that the queue pairs of a lane keep.
type reorderMemory struct {
	bytes int
	peers map[PathKey]int // bytes of each peer that has any
	spare []*keptPacket
	idle  int // bytes of spare
}

// ReorderBytes returns the bytes of packets that have arrived out of order, including overhead.
func (l *Lane) ReorderBytes() int { return l.reorder.bytes }

// room reports whether so many more bytes of a peer may be kept.
func (m *reorderMemory) room(peer PathKey, n int) bool {
	return m.bytes+m.peers[peer]+n <= maxReorderLane
}

// add counts bytes of a peer; n is negative when they are given back.
func (m *reorderMemory) add(peer PathKey, n int) {
	m.bytes += n
	if now := m.peers[peer] + n; now == 0 {
		delete(m.peers, peer)
	} else {
		if m.peers == nil {
			m.peers = make(map[PathKey]int)
		}
		m.peers[peer] = now
	}
}

// keep copies a packet of a peer. It returns false if there is no room, or p is already kept.
func (e *reorderBuffer) keep(m *reorderMemory, peer PathKey, p *ib.Packet) bool {
	cost := len(p.Payload) + keptOverhead
	if e.bytes == 0 {
		e.peer = peer
	}
	if e.kept[p.PSN] != nil || e.bytes+cost > maxReorder || !m.room(e.peer, cost) {
		return false
	}
	if e.kept == nil {
		e.kept = make(map[ib.PSN]*keptPacket)
	}
	var k *keptPacket
	if n := len(m.spare); n > 0 {
		k = m.spare[n-1]
		m.spare = m.spare[:n-1]
		m.idle -= cap(k.memory) + keptOverhead
	} else {
		k = &keptPacket{}
	}
	k.memory = append(k.memory[:0], p.Payload...)
	k.Packet = *p
	k.Payload = k.memory
	e.kept[p.PSN] = k
	e.grown = e.grown || len(e.kept) > keptIndex
	e.bytes += cost
	m.add(e.peer, cost)
	return true
}

// take returns the packet with a PSN, or nil. put returns it.
func (e *reorderBuffer) take(m *reorderMemory, psn ib.PSN) *keptPacket {
	k := e.kept[psn]
	if k == nil {
		return nil
	}
	delete(e.kept, psn)
	if e.grown && len(e.kept) == 0 {
		e.kept, e.grown = nil, false
	}
	cost := len(k.Payload) + keptOverhead
	e.bytes -= cost
	m.add(e.peer, -cost)
	return k
}

func (m *reorderMemory) put(k *keptPacket) {
	if size := cap(k.memory) + keptOverhead; m.idle+size <= maxSpare {
		m.idle += size
		m.spare = append(m.spare, k)
	}
}

// forget drops the packets kept for n PSNs from psn on: the PSNs stand for other packets. The responses of
// a READ take up to millions of PSNs, and few packets are kept, so it iterates over the smaller
// set.
func (e *reorderBuffer) forget(m *reorderMemory, psn ib.PSN, n int) {
	if n > len(e.kept) {
		for kept := range e.kept {
			if off := kept.Sub(psn); off >= 0 && off < n {
				m.put(e.take(m, kept))
			}
		}
		return
	}
	for i := range n {
		if k := e.take(m, psn.Add(i)); k != nil {
			m.put(k)
		}
	}
}

// clear drops everything. A queue pair that never had early packets has no buffer.
func (e *reorderBuffer) clear(m *reorderMemory) {
	if e == nil {
		return
	}
	for _, k := range e.kept {
		m.put(k)
	}
	m.add(e.peer, -e.bytes)
	*e = reorderBuffer{}
}

// gap is a missing packet while later ones have arrived.
type gap struct {
	psn       ib.PSN     // the packet, or the last packet that was missing
	high      ib.PSN     // the latest packet that has arrived
	since     clock.Time // when it was first missed; zero: nothing is missing
	nakSent   bool       // a NAK for psn was sent
	answered  bool       // a NAK for the PSN asked was sent, and that packet has arrived since
	open      bool       // and the packets behind it will show whether it was lost
	asked     ib.PSN
	took      clock.Time // how long asked was missing
	tolerance clock.Time // how long packets may be late
}

// miss records that a packet arrived before psn. It reports whether to send a NAK now; otherwise nakAt is when to
// send one, and remains zero if there is none to send.
func (g *gap) miss(now clock.Time, psn ib.PSN, nakAt *clock.Time) bool {
	if g.since != 0 {
		return false
	}
	g.psn, g.since, g.nakSent = psn, now, false
	if g.tolerance == 0 {
		g.nakSent = true
		return true
	}
	*nakAt = now + g.tolerance
	return false
}

// overdue records that the packet has not come in time, and that a NAK is sent. The next wait is shorter.
func (g *gap) overdue() {
	g.nakSent = true
	if g.tolerance -= g.tolerance / 4; g.tolerance < minTolerance {
		g.tolerance = 0
	}
}

// filled records that the missing packet has arrived, and stops the wait for it. It reports whether a NAK had been
// sent.
func (g *gap) filled(now clock.Time, nakAt *clock.Time) (nakSent bool) {
	if g.since == 0 {
		return false
	}
	took := now - g.since
	g.since, *nakAt = 0, 0
	if !g.nakSent {
		g.tolerate(2 * took)
		return false
	}
	g.asked, g.took, g.answered, g.open = g.psn, took, true, true
	return true
}

// tolerate records that packets may be this late.
func (g *gap) tolerate(by clock.Time) { g.tolerance = max(g.tolerance, min(by, maxTolerance)) }

// follows records the packet that arrives, expected being the next in sequence, and judges whether the
// packet that a NAK requested had been lost. A peer that has retransmitted it retransmits the packets behind
// it, too. If a new packet follows, or the missing one arrives twice, it was late: by as long as it was
// missing. The next packet may be missing already.
func (e *reorderBuffer) follows(psn, expected ib.PSN) {
	g := &e.gap
	newer := psn.After(g.high)
	if newer {
		g.high = psn
	}
	switch {
	case !g.answered:
	case psn == g.asked:
		g.answered, g.open = false, false
		g.tolerate(2 * max(g.took, g.tolerance, minTolerance))
	case g.open && newer:
		g.answered, g.open = false, false
		g.tolerate(2 * g.took)
	case g.open && (psn.Before(expected) || e.kept[psn] != nil):
		g.open = false
	}
}
