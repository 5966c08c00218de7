// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// TestDropPacket: the nth packet, and no other one, is lost, and the message comes all the same.
func TestDropPacket(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		if err := f.DropPacket(infiniband.End{Node: "host-2", Port: 1}, 3+int(w.Seed()%20)); err != nil {
			w.Fatal(err)
		}
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
		lost := uint64(0)
		for _, n := range f.View().Nodes {
			for _, p := range n.Ports {
				lost += uint64(p.Counters.RcvErrors)
			}
		}
		if lost != 1 {
			w.Errorf("%d packets are lost", lost)
		}
	})
}

// TestCableDelay: everything takes as long as the cable does.
func TestCableDelay(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		cable := infiniband.End{Node: "host-2", Port: 1}
		if err := f.SetDelay(cable, time.Millisecond); err != nil {
			w.Fatal(err)
		}
		start := time.Now()
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
		if took := time.Since(start); took < 40*time.Millisecond || took > 60*time.Millisecond {
			w.Errorf("20 round trips over a cable of 1 ms take %v", took)
		}
	})
}

// TestPacketErrorRate: with a part of the packets corrupted everything comes, late.
func TestPacketErrorRate(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		if err := f.SetPacketErrorRate(infiniband.End{Node: "host-2", Port: 1}, 0.05); err != nil {
			w.Fatal(err)
		}
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
	})
}

// TestReorder: with packets that overtake each other on a cable everything comes.
func TestReorder(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		if err := f.SetReorder(infiniband.End{Node: "host-2", Port: 1}, 0.2, 100*time.Microsecond); err != nil {
			w.Fatal(err)
		}
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
	})
}

// TestPathOfFabric: between hosts on a fabric a path delays, loses, repeats, reorders and corrupts as elsewhere, in one
// direction.
func TestPathOfFabric(t *testing.T) {
	for name, c := range map[string]struct {
		path        rdmatest.Path
		least, most time.Duration // that 20 round trips take
	}{
		"none":      {rdmatest.Path{}, 0, 5 * time.Millisecond},
		"delay":     {rdmatest.Path{Delay: time.Millisecond}, 20 * time.Millisecond, 30 * time.Millisecond},
		"rate":      {rdmatest.Path{Rate: 1e6}, 10 * time.Millisecond, time.Second},
		"loss":      {rdmatest.Path{Loss: 0.2}, 10 * time.Millisecond, 10 * time.Second},
		"corrupt":   {rdmatest.Path{Corrupt: 0.2}, 10 * time.Millisecond, 10 * time.Second},
		"duplicate": {rdmatest.Path{Duplicate: 1}, 0, 10 * time.Millisecond},
		"reorder": {rdmatest.Path{Reorder: 0.5, Jitter: 100 * time.Microsecond}, 200 * time.Microsecond,
			10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, 3, func(w *rdmatest.World) {
				f := w.Fabric("star:3")
				a, b := w.Host("server"), w.Host("client")
				server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
				w.SetPath(b, a, func(p *rdmatest.Path) { *p = c.path })
				start := time.Now()
				if err := converse(w, a, b, server, client, 20); err != nil {
					w.Fatal(err)
				}
				if took := time.Since(start); took < c.least || took > c.most {
					w.Errorf("20 round trips take %v", took)
				}
			})
		})
	}
}

// TestPassingOnFabric: hosts on a fabric that are parted in both directions or in one, or stopped, go on when that
// ends, and not before.
func TestPassingOnFabric(t *testing.T) {
	const long = 300 * time.Millisecond
	for name, set := range map[string]func(w *rdmatest.World, a, b *rdmatest.Host, on bool){
		"partition": func(w *rdmatest.World, a, b *rdmatest.Host, on bool) { w.Partition(a, b, on) },
		"one way": func(w *rdmatest.World, a, b *rdmatest.Host, on bool) {
			w.SetPath(a, b, func(p *rdmatest.Path) { p.Cut = on })
		},
		"stop":        func(_ *rdmatest.World, a, _ *rdmatest.Host, on bool) { a.Stop(on) },
		"stop client": func(_ *rdmatest.World, _, b *rdmatest.Host, on bool) { b.Stop(on) },
	} {
		t.Run(name, func(t *testing.T) {
			rdmatest.Run(t, 5, func(w *rdmatest.World) {
				f := w.Fabric("star:3")
				a, b := w.Host("server"), w.Host("client")
				server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
				at := time.Duration(1+w.Rand.IntN(100)) * time.Microsecond
				w.After(at, func() { set(w, a, b, true) })
				w.After(at+long, func() { set(w, a, b, false) })
				start := time.Now()
				if err := converse(w, a, b, server, client, 100); err != nil {
					w.Fatal(err)
				}
				if took := time.Since(start); took < long {
					w.Errorf("100 round trips take %v", took)
				}
			})
		})
	}
}

// TestAdapters: an adapter has one host, and a host one adapter.
func TestAdapters(t *testing.T) {
	for want, open := range map[string]func(w *rdmatest.World, f *rdmatest.Fabric){
		"host b: adapter host-1 is that of host a": func(w *rdmatest.World, f *rdmatest.Fabric) {
			w.Host("a").InfiniBand(f, "host-1")
			w.Host("b").InfiniBand(f, "198.18.0.1")
		},
		"host a: it has adapter host-1 already": func(w *rdmatest.World, f *rdmatest.Fabric) {
			h := w.Host("a")
			h.InfiniBand(f, "host-1")
			h.InfiniBand(f, "host-2")
		},
		"": func(w *rdmatest.World, f *rdmatest.Fabric) {
			h := w.Host("a")
			h.InfiniBand(f, "host-1")
			h.Kill()
			h.InfiniBand(f, "host-1")
			w.Host("b").InfiniBand(f, "")
		},
	} {
		failure := rdmatest.Find(t, 1, func(w *rdmatest.World) { open(w, w.Fabric("star:3")) })
		if want == "" {
			if failure != nil {
				t.Errorf("a new process has no adapter: %v", failure)
			}
			continue
		}
		if failure == nil || len(failure.Texts) != 1 || !strings.Contains(failure.Texts[0], want) {
			t.Errorf("%v, want %q", failure, want)
		}
	}
}
