// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// region is a region of the model, which follows the documentation in the simplest way.
type region struct {
	from, to int
	refs     int
	released int // when
	out      bool
	open     bool
}

type model struct {
	maxBytes, maxRegions int
	regions              []*region
	now                  int
	stats                Stats
}

func (m *model) each(f func(r *region)) {
	for _, r := range slices.Clone(m.regions) {
		if r.open {
			f(r)
		}
	}
}

func (m *model) end(r *region) {
	r.open = false
	m.stats.Regions--
	m.stats.Bytes -= r.to - r.from
}

func (m *model) evict(bytes, regions int) {
	for m.stats.Bytes+bytes > m.maxBytes || m.stats.Regions+regions > m.maxRegions {
		var oldest *region
		m.each(func(r *region) {
			if r.refs == 0 && (oldest == nil || r.released < oldest.released) {
				oldest = r
			}
		})
		if oldest == nil {
			return
		}
		m.end(oldest)
		m.stats.Evicted++
	}
}

func (m *model) get(from, to int) *region {
	var found *region
	m.each(func(r *region) {
		if !r.out && r.from <= from && to <= r.to {
			found = r
		}
	})
	m.stats.InUse++
	if found != nil {
		m.stats.Hits++
		found.refs++
		return found
	}
	m.stats.Misses++
	n := &region{from: from, to: to, refs: 1, open: true, out: to-from > m.maxBytes}
	if !n.out {
		var old []*region
		m.each(func(r *region) {
			if !r.out && r.from < to && from < r.to {
				old = append(old, r)
				n.from, n.to = min(n.from, r.from), max(n.to, r.to)
			}
		})
		if n.to-n.from > m.maxBytes {
			n.from, n.to = from, to
		}
		for _, r := range old {
			m.stats.Merged++
			if r.out = true; r.refs == 0 {
				m.end(r)
			}
		}
	}
	m.evict(n.to-n.from, 1)
	m.stats.Regions++
	m.stats.Bytes += n.to - n.from
	m.regions = append(m.regions, n)
	return n
}

func (m *model) release(r *region) {
	m.now++
	m.stats.InUse--
	if r.refs--; r.refs > 0 {
		return
	}
	r.released = m.now
	if r.out {
		m.end(r)
		return
	}
	m.evict(0, 0)
}

func (m *model) forget(from, to int) (busy bool) {
	m.each(func(r *region) {
		if !r.out && r.from < to && from < r.to {
			m.stats.Forgotten++
			if r.out = true; r.refs == 0 {
				m.end(r)
			} else {
				busy = true
			}
		}
	})
	return busy
}

// TestModel does the same at random with a cache and with the model, and compares all that can be seen.
func TestModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		m := model{maxBytes: 50 + rnd.IntN(400), maxRegions: 1 + rnd.IntN(12)}
		f, c := newFake(t, Options{MaxBytes: m.maxBytes, MaxRegions: m.maxRegions})
		if seed%2 == 0 { // with memory that stays, and without
			c.weak.Store(false)
		}
		mem := make([]byte, 1000)
		type use struct {
			h Handle
			r *region
		}
		var uses []use
		for step := range 400 {
			from := rnd.IntN(len(mem))
			to := min(from+1+rnd.IntN(1+rnd.IntN(200)), len(mem))
			switch what := rnd.IntN(20); {
			case what == 0:
				err, busy := c.Forget(mem[from:to]), m.forget(from, to)
				if (err == nil) == busy || err != nil && !errors.Is(err, verbs.ErrBusy) {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			case what < 11 && len(uses) < 15:
				h, err := c.Get(mem[from:to])
				if err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
				r := m.get(from, to)
				uses = append(uses, use{h, r})
				if n := driver.MROf(h.MR()).(*fakeMR).n; n != r.to-r.from {
					t.Fatalf("seed %d step %d: the region has %d bytes, not %d", seed, step, n, r.to-r.from)
				}
			case len(uses) > 0:
				i := rnd.IntN(len(uses))
				uses[i].h.Release()
				uses[i].h.Release()
				m.release(uses[i].r)
				uses = slices.Delete(uses, i, i+1)
			}
			if c.Stats() != m.stats {
				t.Fatalf("seed %d step %d:\n%+v, the model has\n%+v", seed, step, c.Stats(), m.stats)
			}
			if regions, bytes := f.count(); regions != m.stats.Regions || bytes != m.stats.Bytes {
				t.Fatalf("seed %d step %d: %d regions of %d bytes are open", seed, step, regions, bytes)
			}
			for i := range uses {
				h := &uses[i].h
				if s := h.SGE(0, len(h.Bytes())); !f.has(s) {
					t.Fatalf("seed %d step %d: no region has %d bytes of a handle", seed, step, s.Length)
				}
			}
			c.check(t)
		}
		if err := c.Close(); (err == nil) != (len(uses) == 0) || err != nil && !errors.Is(err, verbs.ErrBusy) {
			t.Fatal(err)
		}
		if _, err := c.Get(mem); !errors.Is(err, verbs.ErrClosed) {
			t.Fatal(err)
		}
		for i := range uses {
			uses[i].h.Release()
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if regions, bytes := f.count(); regions != 0 || bytes != 0 {
			t.Fatalf("seed %d: %d regions of %d bytes are left", seed, regions, bytes)
		}
	}
}

// check looks for contradictions in a cache.
func (c *Cache) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := map[*entry]bool{}
	for e := c.idle.first; e != nil; e = e.older {
		idle[e] = true
		if e.older == nil && c.idle.last != e {
			t.Fatal("the list of idle regions does not end with its last")
		}
	}
	for i, e := range c.index.list {
		if c.index.starts[i] != e.from || e.from >= e.to || i > 0 && c.index.list[i-1].to > e.from {
			t.Fatal("the index is not in order")
		}
		if e.out || e.closed || idle[e] != (e.refs == 0) {
			t.Fatal("an entry is in the wrong place")
		}
		delete(idle, e)
	}
	if len(idle) > 0 {
		t.Fatal("an idle region is not in the index")
	}
	if !c.fits(0, 0) && c.idle.last != nil {
		t.Fatal("idle regions are kept beyond the budget")
	}
}
