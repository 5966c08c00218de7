// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"math/rand/v2"
	"time"
)

// Path is the treatment of packets from one host to another. The zero Path is perfect, and takes
// no time but a nanosecond.
type Path struct {
	Rate      int64         // bits a second; 0: sending takes no time
	Delay     time.Duration // of everything
	Jitter    time.Duration // further delay, up to this, of packets that are reordered
	Loss      float64       // probability that a packet is lost, or that a segment is sent again
	Duplicate float64       // that a packet arrives twice
	Reorder   float64       // that it is delayed by Jitter
	Corrupt   float64       // that one of its bits is changed
	Cut       bool          // nothing arrives, for now
	Dead      bool          // nothing arrives, for good
}

// path is the state of a Path.
type path struct {
	Path
	free instant // when the last packet will have left
	set  bool    // its parameters were chosen
	// Each path, and each sort of fault of it, has random numbers of its own: without one fault the others stay the
	// same.
	loss, duplicate, reorder, corrupt, length luck

	ways [2]passage // the result of passages
}

// luck makes random numbers.
type luck struct{ *rand.Rand }

// strikes draws whether something happens.
func (l luck) strikes(probability float64) bool { return probability > 0 && l.Float64() < probability }

// overhead is the length of a packet's headers below UDP or TCP on the wire: Ethernet and IPv4.
const overhead = 14 + 4 + 20

// path returns the way from one host to another; the lock is held.
func (n *Net) path(from, to *Host) *path {
	key := [2]*Host{from, to}
	p := n.paths[key]
	if p == nil {
		p = &path{Path: n.Default}
		for i, l := range []*luck{&p.loss, &p.duplicate, &p.reorder, &p.corrupt, &p.length} {
			l.Rand = rand.New(rand.NewPCG(n.seed, uint64(i)<<60|uint64(from.index)<<32|uint64(to.index)+1))
		}
		n.paths[key] = p
	}
	return p
}

// SetPath changes the way from one host to another.
func (n *Net) SetPath(from, to *Host, change func(*Path)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.path(from, to)
	p.set = true
	change(&p.Path)
}

// Cut parts two hosts, or joins them again.
func (n *Net) Cut(a, b *Host, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range []*path{n.path(a, b), n.path(b, a)} {
		p.Cut, p.set = cut, true
	}
	n.note("cut", a.addr, b.addr, cut)
}

// leaves returns when so many bytes that are sent now have left.
func (p *path) leaves(now instant, size int) instant {
	p.free = max(p.free, now)
	if p.Rate > 0 {
		p.free += instant(int64(size+overhead) * 8 * int64(time.Second) / p.Rate)
	}
	return p.free
}

// passage is how a copy of a packet gets to where it is sent.
type passage struct {
	at   instant // when it comes
	flip int     // the bit of it that is changed; -1: none
}

// passages returns the passages of a packet of size bytes that has left, until it is called again; none: it is lost.
func (p *path) passages(left instant, size int) []passage {
	copies := 1
	if p.duplicate.strikes(p.Duplicate) {
		copies = 2
	}
	for i := range 2 { // a copy that there is not takes its random numbers, too
		g := passage{at: left + instant(p.Delay), flip: -1}
		if p.reorder.strikes(p.Reorder) {
			g.at += instant(p.reorder.Int64N(int64(p.Jitter) + 1))
		}
		if p.corrupt.strikes(p.Corrupt) {
			g.flip = p.corrupt.IntN(size * 8)
		}
		p.ways[i] = g
	}
	if p.loss.strikes(p.Loss) {
		return nil
	}
	return p.ways[:copies]
}
