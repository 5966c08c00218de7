// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"math/rand/v2"
	"time"
)

// Path is what happens to what goes from one host to another. The zero Path is perfect, and takes
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
	rand *rand.Rand // its own: what one host does changes nothing for the others
	free instant    // when the last packet will have left
}

// overhead is what a packet has below UDP or TCP on the wire: Ethernet and IPv4.
const overhead = 14 + 4 + 20

// path returns the way from one host to another; the lock is held.
func (n *Net) path(from, to *Host) *path {
	key := [2]*Host{from, to}
	p := n.paths[key]
	if p == nil {
		p = &path{Path: n.Default, rand: rand.New(rand.NewPCG(n.seed, uint64(from.index)<<32|uint64(to.index)+1))}
		n.paths[key] = p
	}
	return p
}

// SetPath changes the way from one host to another.
func (n *Net) SetPath(from, to *Host, change func(*Path)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.path(from, to).Path)
}

// Cut parts two hosts, or joins them again.
func (n *Net) Cut(a, b *Host, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.path(a, b).Cut, n.path(b, a).Cut = cut, cut
	n.note("cut", a.addr, b.addr, cut)
}

func (p *path) chance(q float64) bool { return q > 0 && p.rand.Float64() < q }

// leaves returns when so many bytes that are sent now have left.
func (p *path) leaves(now instant, size int) instant {
	p.free = max(p.free, now)
	if p.Rate > 0 {
		p.free += instant(int64(size+overhead) * 8 * int64(time.Second) / p.Rate)
	}
	return p.free
}
