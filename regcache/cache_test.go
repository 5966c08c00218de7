// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

func get(t testing.TB, c *Cache, buf []byte) Handle {
	t.Helper()
	h, err := c.Get(buf)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRefused(t *testing.T) {
	f, c := newFake(t, Options{})
	if _, err := c.Get(nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Error(err)
	}
	if err := c.Forget(nil); err != nil {
		t.Error(err)
	}
	for _, o := range []struct {
		access verbs.Access
		opt    Options
	}{
		{opt: Options{MaxBytes: -1}}, {opt: Options{MaxRegions: -1}}, {access: verbs.MWBind},
		{opt: Options{Register: []verbs.RegOption{verbs.Weak()}}},
		{opt: Options{Register: []verbs.RegOption{verbs.Pinned(), verbs.Deferred()}}},
	} {
		if _, err := New(c.pd, o.access, &o.opt); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	var none Handle
	none.Release()
	if f.regs != 0 {
		t.Errorf("%d registrations", f.regs)
	}
}

// A handle of a part names that part.
func TestPart(t *testing.T) {
	_, c := newFake(t, Options{})
	buf := make([]byte, 1000)
	whole := get(t, c, buf)
	part := get(t, c, buf[100:200])
	if part.MR() != whole.MR() || &part.Bytes()[0] != &buf[100] {
		t.Fatal("a part has a region of its own")
	}
	start := whole.SGE(0, 1000).Addr
	if s := part.SGE(7, 20); s.Addr != start+107 || s.Length != 20 || s.LKey != whole.MR().LKey() {
		t.Errorf("%+v", s)
	}
	if r := part.Remote(); r.Addr != start+100 || r.Key != whole.MR().RKey() {
		t.Errorf("%+v", r)
	}
}

// The cache makes room for memory that the system refuses to pin.
func TestPinLimit(t *testing.T) {
	f, c := newFake(t, Options{Register: []verbs.RegOption{verbs.Pinned()}})
	f.limit = 250
	bufs := make([][]byte, 4)
	for i := range bufs {
		bufs[i] = make([]byte, 100)
		h := get(t, c, bufs[i])
		h.Release()
	}
	if s := c.Stats(); s.Regions != 2 || s.Evicted != 2 {
		t.Errorf("%+v", s)
	}
	a, b := get(t, c, bufs[2]), get(t, c, bufs[3])
	if s := c.Stats(); s.Hits != 2 {
		t.Errorf("those used last are gone: %+v", s)
	}
	if _, err := c.Get(bufs[0]); !errors.Is(err, verbs.ErrPinLimit) {
		t.Errorf("with all in use: %v", err)
	}
	if s := c.Stats(); s.Regions != 2 || s.Bytes != 200 || s.InUse != 2 {
		t.Errorf("after a failure: %+v", s)
	}
	c.check(t)
	a.Release()
	b.Release()
	h := get(t, c, bufs[0])
	h.Release()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// until waits for an effect of the garbage collector.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
		runtime.GC()
	}
}

// Memory of Go goes when the program has no use for it, and its region with it.
func TestCollected(t *testing.T) {
	f, c := newFake(t, Options{})
	keep := make([]byte, 1<<16)
	h := get(t, c, keep[1:100]) // the middle of an allocation
	h.Release()
	held := get(t, c, make([]byte, 1<<16))
	for range 20 {
		h := get(t, c, make([]byte, 1<<16))
		h.Release()
	}
	until(t, "20 regions are closed", func() bool { n, _ := f.count(); return n == 2 })
	if s := c.Stats(); s.Collected+s.Evicted+s.Merged != 20 || s.Regions != 2 || s.Bytes != 99+1<<16 {
		t.Errorf("%+v", s)
	}
	c.check(t)
	if got := get(t, c, held.Bytes()); got.MR() != held.MR() { // the handle alone has kept it
		t.Error("a handle does not keep its memory")
	}
	if got := get(t, c, keep[1:100]); c.Stats().Misses != 22 {
		t.Error("memory that the program has is gone")
	} else {
		got.Release()
	}
	runtime.KeepAlive(keep)
}

// A device without weak regions, and regions that are pinned, keep memory until the budget ends it.
func TestKept(t *testing.T) {
	for name, c := range map[string]*Cache{
		"no weak regions": func() *Cache { f, c := newFake(t, Options{MaxRegions: 3}); f.strong = true; return c }(),
		"pinned": func() *Cache {
			_, c := newFake(t, Options{MaxRegions: 3, Register: []verbs.RegOption{verbs.Pinned()}})
			return c
		}(),
	} {
		for range 5 {
			h := get(t, c, make([]byte, 1<<16))
			h.Release()
		}
		runtime.GC()
		runtime.GC()
		if s := c.Stats(); s.Regions != 3 || s.Evicted != 2 || s.Collected != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Globals are not allocated, and never collected.
var global [4096]byte

func TestGlobal(t *testing.T) {
	_, c := newFake(t, Options{})
	for range 2 {
		h := get(t, c, global[:])
		h.Release()
		runtime.GC()
	}
	if s := c.Stats(); s.Hits != 1 || s.Misses != 1 {
		t.Errorf("%+v", s)
	}
}

// TestConcurrent uses, forgets and drops the same memory in several goroutines.
func TestConcurrent(t *testing.T) {
	f, c := newFake(t, Options{MaxBytes: 2000, MaxRegions: 8})
	mem := make([]byte, 4000)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 3))
			for j := range 3000 {
				from := rnd.IntN(len(mem))
				b := mem[from:min(from+1+rnd.IntN(300), len(mem))]
				if j%100 == 0 {
					b = make([]byte, 300)
				}
				if rnd.IntN(50) == 0 {
					if err := c.Forget(b); err != nil && !errors.Is(err, verbs.ErrBusy) {
						t.Error(err)
					}
					continue
				}
				h, err := c.Get(b)
				if err != nil {
					t.Error(err)
					return
				}
				if !f.has(h.SGE(0, len(b))) {
					t.Error("no region has the bytes of a handle")
				}
				h.Release()
			}
		})
	}
	wg.Wait()
	c.check(t)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	until(t, "all regions are closed", func() bool { n, _ := f.count(); return n == 0 })
}

// Two that want the same memory share one registration.
func TestOneRegistration(t *testing.T) {
	f, c := newFake(t, Options{})
	buf := make([]byte, 1000)
	f.mu.Lock() // no goroutine can register
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { h := get(t, c, buf); h.Release() })
	}
	for c.Stats().Misses == 0 {
		time.Sleep(time.Millisecond)
	}
	f.mu.Unlock()
	wg.Wait()
	if s := c.Stats(); s.Misses != 1 || s.Hits != 3 || f.regs != 1 {
		t.Errorf("%+v, %d registrations", s, f.regs)
	}
}

// A hit allocates nothing.
func TestNoAllocations(t *testing.T) {
	_, c := newFake(t, Options{})
	buf := make([]byte, 1<<16)
	first := get(t, c, buf)
	defer first.Release()
	if n := testing.AllocsPerRun(1000, func() {
		h, err := c.Get(buf[100:200])
		if err != nil {
			t.Error(err)
		}
		if h.SGE(0, 100).Length != 100 {
			t.Error("the wrong bytes")
		}
		h.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
