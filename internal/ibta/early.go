// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Packets that overtake others are kept, and handled when those have come, as if all had
// come in order: a program sees the order that IBTA 9.5 demands. So a packet that is late
// need not be sent again, and one that was lost costs itself and not all that followed it.
//
// Whether a packet that is missing is late or lost shows only later. At first it is taken
// for lost, and the peer is told at once. As soon as one turns out to have been late, the
// others are given time.

const (
	// maxEarly bounds the bytes that are kept of a queue pair's requests, and of responses
	// to it.
	maxEarly = 2 << 20
	// maxEarlyDevice bounds those of all queue pairs of a device.
	maxEarlyDevice = 32 << 20
	// maxAhead is how far before its turn a request may come to be kept. Who forges requests
	// must not have an easy guess at the PSN.
	maxAhead = 1024
	// earlyOverhead is what a packet that is kept costs beyond its payload.
	earlyOverhead = 256
	// maxSpare bounds the memory that is kept for the next packet that comes early.
	maxSpare = 1 << 20
	// maxPatience is the longest that a packet may be late: less than what a requester
	// waits for an acknowledgement.
	maxPatience = Time(4 * time.Millisecond)
	// minPatience is the shortest time worth waiting.
	minPatience = Time(50 * time.Microsecond)
	// fewEarly is for how many packets a queue pair keeps an empty index.
	fewEarly = 128
)

// early is what came before its turn: requests at a responder, responses at a requester.
type early struct {
	kept  map[ib.PSN]*earlyPacket
	bytes int
	many  bool // kept had more than fewEarly
	gap   gap

	acked ib.PSN // requester: an acknowledgement that came before a response; valid if
	ack   bool   // there was one
}

// earlyPacket is a packet with a copy of its payload.
type earlyPacket struct {
	ib.Packet
	memory []byte
}

// earlyMemory is what the queue pairs of a device keep.
type earlyMemory struct {
	bytes int
	spare []*earlyPacket
	idle  int // bytes of spare
}

// Early returns the bytes of packets that have come before their turn, with what they take
// beside their payload.
func (d *Device) Early() int { return d.early.bytes }

// keep copies p, if there is room for it; false: there is none, or it is kept already.
func (e *early) keep(m *earlyMemory, p *ib.Packet) bool {
	cost := len(p.Payload) + earlyOverhead
	if e.kept[p.PSN] != nil || e.bytes+cost > maxEarly || m.bytes+cost > maxEarlyDevice {
		return false
	}
	if e.kept == nil {
		e.kept = make(map[ib.PSN]*earlyPacket)
	}
	var k *earlyPacket
	if n := len(m.spare); n > 0 {
		k = m.spare[n-1]
		m.spare = m.spare[:n-1]
		m.idle -= cap(k.memory) + earlyOverhead
	} else {
		k = &earlyPacket{}
	}
	k.memory = append(k.memory[:0], p.Payload...)
	k.Packet = *p
	k.Payload = k.memory
	e.kept[p.PSN] = k
	e.many = e.many || len(e.kept) > fewEarly
	e.bytes += cost
	m.bytes += cost
	return true
}

// take returns the packet with a PSN, nil: it has not come. It goes back by put.
func (e *early) take(m *earlyMemory, psn ib.PSN) *earlyPacket {
	k := e.kept[psn]
	if k == nil {
		return nil
	}
	delete(e.kept, psn)
	if e.many && len(e.kept) == 0 {
		e.kept, e.many = nil, false
	}
	cost := len(k.Payload) + earlyOverhead
	e.bytes -= cost
	m.bytes -= cost
	return k
}

func (m *earlyMemory) put(k *earlyPacket) {
	if size := cap(k.memory) + earlyOverhead; m.idle+size <= maxSpare {
		m.idle += size
		m.spare = append(m.spare, k)
	}
}

// forget drops what was kept of n PSNs from psn on: they stand for something else. The responses
// of a READ take millions of them, and few packets are kept: it looks at the fewer.
func (e *early) forget(m *earlyMemory, psn ib.PSN, n int) {
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

// clear drops everything. A queue pair without any early packets has no early at all.
func (e *early) clear(m *earlyMemory) {
	if e == nil {
		return
	}
	for _, k := range e.kept {
		m.put(k)
	}
	m.bytes -= e.bytes
	*e = early{}
}

// gap is a packet that is missing while later ones have come.
type gap struct {
	psn      ib.PSN // the packet, or the last one there was
	high     ib.PSN // the latest packet that has come
	since    Time   // when it was first missed; zero: nothing is missing
	tellAt   Time   // when the peer is to be told; zero: it was, or nothing is missing
	told     bool   // the peer was told of psn
	open     bool   // psn has come since then, and what follows it will say why
	took     Time   // how long psn was missing
	patience Time   // how long packets may be late
}

// miss notes that a packet came before psn. It reports whether the peer is to be told now.
func (g *gap) miss(now Time, psn ib.PSN) bool {
	if g.since != 0 {
		return false
	}
	g.psn, g.since, g.told, g.open = psn, now, false, false
	if g.patience == 0 {
		g.told = true
		return true
	}
	g.tellAt = now + g.patience
	return false
}

// due reports whether the peer is to be told at now. What is given so much time in vain is
// given less the next time.
func (g *gap) due(now Time) bool {
	if g.tellAt == 0 || now < g.tellAt {
		return false
	}
	g.tellAt, g.told = 0, true
	if g.patience -= g.patience / 4; g.patience < minPatience {
		g.patience = 0
	}
	return true
}

// came notes that what was missing has come. It reports whether the peer had been told.
func (g *gap) came(now Time) (told bool) {
	if g.since == 0 {
		return false
	}
	g.took = now - g.since
	if g.open = g.told; !g.told {
		g.late(2 * g.took)
	}
	g.since, g.tellAt = 0, 0
	return g.told
}

// late notes that packets may be so late.
func (g *gap) late(by Time) { g.patience = max(g.patience, min(by, maxPatience)) }

// follows notes which packet comes, expected being the next in sequence, and judges whether
// the one that the peer was told of had been lost. A peer that has sent it once more sends
// what follows it once more too. If something new follows, or it comes twice, it was late.
func (g *gap) follows(psn, expected ib.PSN) {
	newer := psn.After(g.high)
	if newer {
		g.high = psn
	}
	switch {
	case g.since != 0 || !g.told:
	case psn == g.psn:
		g.told = false
		g.late(2 * max(g.patience, minPatience))
	case g.open && newer:
		g.open, g.told = false, false
		g.late(2 * g.took)
	case psn.Before(expected):
		g.open = false
	}
}
