// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// paths are the ways a packet can go between two adapters.
var paths = []struct {
	name  string
	cfg   Config
	delay clock.Time
}{
	{"as fast as it goes", Config{}, 0},
	{"paced", Config{Paced: true}, 0},
	{"paced, with delay", Config{Paced: true}, 100},
}

// round sends 32 packets from one adapter to the others, over two hops.
func (f *fabric) round(from *Port, lid uint16, to ...*Port) {
	for range 32 {
		if p := f.packet(from, lid, 0, 4096, 0); !f.net.Send(f.now, from, p) {
			f.tb.Fatal("no room")
		}
	}
	for got := 0; got < 32*len(to); {
		for f.net.Run(f.now, 1000) {
		}
		for _, t := range to {
			for p := f.net.Receive(t); p != nil; p = f.net.Receive(t) {
				f.net.Release(p)
				got++
			}
		}
		if next := f.net.Deadline(); next != 0 {
			f.now = next
		}
	}
	f.buf = f.net.Woken(f.buf[:0])
}

// TestAllocations: once there are buffers, no packet allocates: to a LID, to a group, out of the process
// and in.
func TestAllocations(t *testing.T) {
	for _, c := range paths {
		f := newFabric(t, c.cfg)
		sw, as := f.star(3, c.delay)
		sw.State().Tables.Multicast[0][0] = 1<<1 | 1<<2 | 1<<3
		if n := testing.AllocsPerRun(100, func() { f.round(as[0], 2, as[1]) }); n != 0 {
			t.Errorf("%s: %v allocations for 32 packets", c.name, n)
		}
		if n := testing.AllocsPerRun(100, func() { f.round(as[0], 0xc000, as...) }); n != 0 {
			t.Errorf("%s, multicast: %v allocations for 32 packets", c.name, n)
		}
	}
	p, a, b := remote(t, 0)
	var buf []byte
	n := testing.AllocsPerRun(100, func() {
		for range 8 {
			p.f[0].net.Send(p.f[0].now, a, p.f[0].packet(a, 2, 0, 4096, 0))
		}
		for range 10 {
			for side := range 2 {
				p.f[side].net.Run(p.f[side].now, 100)
				for frame, ok := p.f[side].net.NextFrame(p.f[side].now, p.port[side],
					buf[:0]); ok; frame, ok = p.f[side].net.NextFrame(p.f[side].now, p.port[side], buf[:0]) {
					buf = frame
					p.f[1-side].net.HandleFrame(p.f[1-side].now, p.port[1-side], frame)
				}
				p.f[side].buf = p.f[side].net.Woken(p.f[side].buf[:0])
			}
		}
		if p.f[1].came(b) != 8 {
			t.Fatal("not all came")
		}
	})
	if n != 0 {
		t.Errorf("between networks: %v allocations for 8 packets", n)
	}
}

// BenchmarkHop is the cost of a packet on each of the two links between adapters on one switch.
func BenchmarkHop(b *testing.B) {
	for _, c := range paths {
		b.Run(c.name, func(b *testing.B) {
			f := newFabric(b, c.cfg)
			_, as := f.star(2, c.delay)
			b.ReportAllocs()
			for b.Loop() {
				f.round(as[0], 2, as[1])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/hop")
		})
	}
}

// BenchmarkRemote is the cost of a packet of 4096 bytes over a cable between two networks, both ends
// together, with its CRCs.
func BenchmarkRemote(b *testing.B) {
	p, from, to := remote(b, 0)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		for range 8 {
			p.f[0].net.Send(p.f[0].now, from, p.f[0].packet(from, 2, 0, 4096, 0))
		}
		for got := 0; got < 8; got += p.f[1].came(to) {
			for side := range 2 {
				p.f[side].net.Run(p.f[side].now, 100)
				for frame, ok := p.f[side].net.NextFrame(p.f[side].now, p.port[side],
					buf[:0]); ok; frame, ok = p.f[side].net.NextFrame(p.f[side].now, p.port[side], buf[:0]) {
					buf = frame
					p.f[1-side].net.HandleFrame(p.f[1-side].now, p.port[1-side], frame)
				}
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/packet")
}
