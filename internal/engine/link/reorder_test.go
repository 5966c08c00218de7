// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// TestReorder: a cable that reorders loses and repeats nothing, and delays no packet beyond the bound.
func TestReorder(t *testing.T) {
	const count, most = 2000, 50_000
	for _, cfg := range []Config{{Seed: 1}, {Seed: 2, Paced: true}} {
		f := newFabric(t, cfg)
		_, as := f.star(2, 0)
		a, b := as[0], as[1]
		if err := f.net.SetReorder(f.now, b.cable, 0.2, most); err != nil {
			t.Fatal(err)
		}
		came := make([]bool, count)
		last, late, n := -1, 0, 0
		take := func() {
			for p := f.net.Receive(b); p != nil; p = f.net.Receive(b) {
				id := int(idOf(p))
				if came[id] || !p.icrcValid() {
					t.Fatalf("packet %d came twice, or changed", id)
				}
				if id < last {
					late++
				}
				came[id], last, n = true, max(last, id), n+1
				f.net.Release(p)
			}
		}
		var sentAt [count]clock.Time
		for i := 0; i < count; {
			if p := f.packet(a, 2, uint8(i%3), 256, uint64(i)); f.net.Send(f.now, a, p) {
				sentAt[i] = f.now
				i++
			} else {
				f.net.Release(p)
			}
			f.run(f.now + 1000)
			take()
			for old := range i {
				if !came[old] && f.now > sentAt[old]+most+ms {
					t.Fatalf("packet %d has not come after %d ns", old, f.now-sentAt[old])
				}
			}
		}
		f.run(f.now + ms)
		take()
		if n != count || late < count/20 || late > count/2 {
			t.Errorf("paced %t: %d of %d came, %d were overtaken", cfg.Paced, n, count, late)
		}
		if err := f.net.SetReorder(f.now, b.cable, 0, 0); err != nil {
			t.Fatal(err)
		}
		f.run(f.now + ms)
		checkIdle(t, as)
	}
}

// TestReorderEndsWithLink: packets that a port holds back are lost with its link.
func TestReorderEndsWithLink(t *testing.T) {
	f := newFabric(t, Config{Seed: 1})
	_, as := f.star(2, 0)
	if err := f.net.SetReorder(f.now, as[0].cable, 1, ms); err != nil {
		t.Fatal(err)
	}
	f.send(as[0], f.packet(as[0], 2, 0, 256, 1))
	before := f.net.Losses()
	f.net.Pull(f.now, as[0].cable)
	f.run(f.now + 10*ms)
	if n := f.net.Losses() - before; n != 1 || as[0].State().Counters.XmitDiscards != 1 || f.came(as[1]) != 0 {
		t.Errorf("%d packets are lost", n)
	}
}

func TestReorderRefused(t *testing.T) {
	f := newFabric(t, Config{})
	c := f.plugged(f.adapter(1, nil), f.adapter(2, nil))
	for _, share := range []float64{-1, 1.5, nan()} {
		if err := f.net.SetReorder(0, c, share, ms); err == nil {
			t.Errorf("share %g: no error", share)
		}
	}
	if err := f.net.SetReorder(0, c, 0.5, -1); err == nil {
		t.Error("a negative time: no error")
	}
}
