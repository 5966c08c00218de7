// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Link is one direction between two hosts. The zero Link is perfect and takes no time.
type Link struct {
	Rate      int64     // bits per second; 0: packets take no time to send
	Delay     ibta.Time // of every packet
	Jitter    ibta.Time // further delay, up to this, of packets that are reordered
	Loss      float64   // probability that a packet is lost
	Duplicate float64   // that it arrives twice
	Reorder   float64   // that it is delayed by Jitter
	Corrupt   float64   // that it is damaged: it takes its room in the buffer, the ICRC finds it
	Buffer    int       // bytes of the receiving socket's buffer; 0: no limit
	PerPacket ibta.Time // what the receiver takes to handle a packet
}

// headersBelow is what a packet has below the transport on the wire: Ethernet, IPv4, UDP.
const headersBelow = 14 + 20 + 8

// bufferOverhead is what a packet takes of a socket buffer beyond its bytes.
const bufferOverhead = 256

// Net is a network and its clock.
type Net struct {
	Rand *rand.Rand
	// Trace records all packets as they leave; nil: none.
	Trace *trace.Writer
	// Mutate changes a packet on its way, before its ICRC is computed; nil: none.
	Mutate func(transport []byte)

	now    ibta.Time
	events events
	count  uint64
	hosts  []*Host
	Stats  Stats
}

// Stats count what links did.
type Stats struct {
	Packets, Lost, Duplicated, Reordered, Corrupted, Overrun int
}

// New makes a network whose chances follow from seed.
func New(seed uint64) *Net {
	return &Net{Rand: rand.New(rand.NewPCG(seed, 0x52616d6a6574)), now: 1}
}

// Now returns the virtual time.
func (n *Net) Now() ibta.Time { return n.now }

// event is something that happens at a time.
type event struct {
	at  ibta.Time
	seq uint64 // events of one time happen in the order in which they were made
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

// After has f called when d has passed.
func (n *Net) After(d ibta.Time, f func()) { n.at(n.now+d, f) }

func (n *Net) at(t ibta.Time, f func()) {
	n.count++
	heap.Push(&n.events, event{max(t, n.now), n.count, f})
}

// Step goes to the next event and lets it happen; false: there is none before limit.
func (n *Net) Step(limit ibta.Time) bool {
	if len(n.events) == 0 || n.events[0].at > limit {
		return false
	}
	e := heap.Pop(&n.events).(event)
	n.now = e.at
	e.do()
	return true
}

// Run steps until done says so, or nothing happens before limit. It returns what done says
// at the end.
func (n *Net) Run(limit ibta.Time, done func() bool) bool {
	for !done() {
		if !n.Step(limit) {
			return done()
		}
	}
	return true
}

// link is the state of a Link.
type link struct {
	Link
	from, to *Host
	free     ibta.Time // when the last packet will have left
	flow     ib.Flow
	buffered int       // bytes in the receiver's buffer
	busy     ibta.Time // when the receiver will have handled the last packet that it has
}

// Connect joins two hosts, each direction with its own Link.
func (n *Net) Connect(a, b *Host, there, back Link) {
	a.links[b.GID()] = &link{Link: there, from: a, to: b, flow: ib.NewFlow(a.addr(), b.addr(), true)}
	b.links[a.GID()] = &link{Link: back, from: b, to: a, flow: ib.NewFlow(b.addr(), a.addr(), true)}
}

func (n *Net) chance(p float64) bool { return p > 0 && n.Rand.Float64() < p }

// send puts a packet on the link. pkt ends with room for the ICRC and is the network's.
func (n *Net) send(l *link, pkt []byte) {
	n.Stats.Packets++
	end := len(pkt) - 4
	if n.Mutate != nil {
		n.Mutate(pkt[:end])
	}
	if n.Trace != nil {
		n.record(l, pkt)
	}
	l.free = max(l.free, n.now)
	if l.Rate > 0 {
		l.free += ibta.Time(int64(len(pkt)+headersBelow) * 8 * int64(time.Second) / l.Rate)
	}
	if n.chance(l.Loss) {
		n.Stats.Lost++
		return
	}
	copies := [][]byte{pkt}
	if n.chance(l.Duplicate) {
		n.Stats.Duplicated++
		copies = append(copies, slices.Clone(pkt))
	}
	for _, pkt := range copies {
		at := l.free + l.Delay
		if n.chance(l.Reorder) {
			n.Stats.Reordered++
			at += ibta.Time(n.Rand.Int64N(int64(l.Jitter) + 1))
		}
		damaged := n.chance(l.Corrupt)
		n.at(at, func() { n.arrive(l, pkt, damaged) })
	}
}

// record keeps a packet in the trace with its ICRC computed. Its time is that of the
// virtual clock, from the beginning of 2020 on.
func (n *Net) record(l *link, pkt []byte) {
	end := len(pkt) - 4
	ib.AppendICRC(pkt[:end], 0, l.flow.Seed(len(pkt)+8, 0))
	n.Trace.WriteUDP(&trace.UDP{At: time.Unix(1577836800, int64(n.now)), Src: l.from.addr(), Dst: l.to.addr(), DontFragment: true, TTL: 64}, pkt)
	if n.Stats.Packets%1000 == 0 {
		n.Trace.Flush()
	}
}

// arrive puts a packet into the receiver's buffer.
func (n *Net) arrive(l *link, pkt []byte, damaged bool) {
	size := len(pkt) + bufferOverhead
	if l.Buffer > 0 && l.buffered+size > l.Buffer {
		n.Stats.Overrun++
		return
	}
	l.buffered += size
	l.busy = max(l.busy, n.now) + l.PerPacket
	n.at(l.busy, func() {
		l.buffered -= size
		if damaged {
			n.Stats.Corrupted++
			l.to.Device.Counters.Dropped[ibta.DropICRC]++
			return
		}
		l.to.receive(l.from, pkt[:len(pkt)-4])
	})
}

// addrOf gives the hosts of a network addresses of the block for documentation.
func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}) }
