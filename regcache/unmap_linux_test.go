// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"errors"
	"os"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/mappings"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// newWatching makes a cache on a fake device, with a watcher of mapped memory that goes away.
func newWatching(t testing.TB, opt Options) (*fake, *Cache) {
	t.Helper()
	f := &fake{open: make(map[verbs.Key]*fakeMR)}
	pd, err := driver.NewDevice(f).AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	opt.WatchMapped = true
	c, err := New(pd, verbs.LocalWrite, &opt)
	if errors.Is(err, verbs.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return f, c
}

var page = os.Getpagesize()

// mapped maps n pages.
func mapped(t testing.TB, n, flags int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// again maps other memory in the place of mem.
func again(t testing.TB, mem []byte) {
	t.Helper()
	if _, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
}

// A region does not outlive its mapping, whichever way that ends, and pages beside it stay.
func TestUnmapped(t *testing.T) {
	for what, opt := range map[string]Options{"plain": {}, "pinned": {Register: []verbs.RegOption{verbs.Pinned()}}} {
		t.Run(what, func(t *testing.T) {
			f, c := newWatching(t, opt)
			mem := mapped(t, 6, unix.MAP_PRIVATE)
			use := func(first, n int) {
				h := get(t, c, mem[first*page:][:n*page])
				h.Release()
			}
			for _, flags := range []int{unix.MADV_DONTNEED, unix.MADV_FREE} {
				before := c.Stats()
				use(0, 2)
				use(3, 2)
				if err := unix.Madvise(mem[page:2*page], flags); err != nil {
					t.Fatal(err)
				}
				use(3, 2)
				if s := c.Stats(); s.Unmapped != before.Unmapped+1 || s.Hits <= before.Hits {
					t.Errorf("after madvise: %+v", s)
				}
			}
			use(0, 2)
			again(t, mem[:page])
			before := c.Stats()
			use(0, 1)
			if s := c.Stats(); s.Misses != before.Misses+1 {
				t.Errorf("the region of what was mapped before is found: %+v", s)
			}
			held := get(t, c, mem)
			if err := unix.Munmap(mem); err != nil {
				t.Fatal(err)
			}
			if s := c.Stats(); s.Regions != 1 || s.InUse != 1 {
				t.Errorf("with a handle: %+v", s)
			}
			held.Release()
			until(t, "the regions are closed", func() bool { n, _ := f.count(); return n == 0 })
			if s := c.Stats(); s.Regions != 0 || s.Bytes != 0 {
				t.Errorf("%+v", s)
			}
			c.check(t)
		})
	}
}

// Memory of Go is not watched: it goes when the program has no use for it.
func TestUnmappedAndCollected(t *testing.T) {
	_, c := newWatching(t, Options{})
	buf := make([]byte, 1<<16)
	h := get(t, c, buf)
	if h.e.followed {
		t.Error("memory of Go is watched")
	}
	h.Release()
	buf = nil
	until(t, "it is collected", func() bool { return c.Stats().Collected == 1 })
}

// Two regions have parts of one page. When one of them ends the other is still watched, and when both
// have ended the page is not watched any more.
func TestSharedPage(t *testing.T) {
	_, c := newWatching(t, Options{})
	mem := mapped(t, 3, unix.MAP_PRIVATE)
	for _, buf := range [][]byte{mem[:page+100], mem[page+200:]} {
		h := get(t, c, buf)
		h.Release()
	}
	if err := c.Forget(mem[:1]); err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(mem[:page], unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Regions != 1 || s.Unmapped != 0 {
		t.Errorf("a page of nobody: %+v", s)
	}
	if err := unix.Madvise(mem[page:2*page], unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Regions != 0 || s.Unmapped != 1 {
		t.Errorf("the shared page: %+v", s)
	}
	unix.Munmap(mem)
}

// Memory that cannot be watched is not kept.
func TestUnwatched(t *testing.T) {
	f, c := newWatching(t, Options{})
	_, other := newWatching(t, Options{}) // a page has one watcher
	mem := mapped(t, 1, unix.MAP_PRIVATE)
	theirs := get(t, other, mem)
	for range 2 {
		h := get(t, c, mem)
		h.Release()
	}
	if n, _ := f.count(); n != 0 {
		t.Error("the region is kept")
	}
	if s := c.Stats(); s.Unwatched != 2 || s.Misses != 2 || s.Regions != 0 {
		t.Errorf("%+v", s)
	}
	c.check(t)
	theirs.Release()
	other.Forget(mem)
	h := get(t, c, mem)
	h.Release()
	if s := c.Stats(); s.Regions != 1 || s.Unwatched != 2 {
		t.Errorf("when the other has let go of it: %+v", s)
	}
	unix.Munmap(mem)
}

// A registration that fails leaves nothing watched.
func TestUnwatchedAfterFailure(t *testing.T) {
	f, c := newWatching(t, Options{})
	f.limit = 1
	mem := mapped(t, 1, unix.MAP_PRIVATE)
	if _, err := c.Get(mem); !errors.Is(err, verbs.ErrPinLimit) {
		t.Fatal(err)
	}
	_, other := newWatching(t, Options{})
	h := get(t, other, mem)
	if !h.e.followed {
		t.Error("it is still watched")
	}
	h.Release()
	unix.Munmap(mem)
}

// Goroutines map, use and unmap memory, at addresses that come again. None gets a region of memory
// that was there before.
func TestUnmappedConcurrently(t *testing.T) {
	f, c := newWatching(t, Options{MaxRegions: 40})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				mem := mapped(t, 4, unix.MAP_PRIVATE)
				h := get(t, c, mem[10:3*page])
				part := get(t, c, mem[page:2*page])
				if !f.has(h.SGE(0, 3*page-10)) || part.MR() != h.MR() {
					t.Error("no region of this memory")
				}
				h.Release()
				part.Release()
				if i%2 == 0 {
					again(t, mem)
					old := h
					h = get(t, c, mem[10:3*page])
					if !f.has(h.SGE(0, 3*page-10)) || h.e == old.e {
						t.Error("the region of what was mapped before")
					}
					h.Release()
				}
				if err := unix.Munmap(mem); err != nil {
					t.Error(err)
				}
				_ = make([]byte, 1<<15)
			}
		})
	}
	all.Wait()
	until(t, "the regions are closed", func() bool { n, _ := f.count(); return n == 0 })
	if s := c.Stats(); s.Misses != 8*300 || s.Regions != 0 || s.InUse != 0 {
		t.Errorf("%+v", s)
	}
	c.check(t)
}

// BenchmarkMapped registers mapped memory, touches it and unmaps it.
func BenchmarkMapped(b *testing.B) {
	for _, watched := range []bool{false, true} {
		name := "forgotten"
		if watched {
			name = "watched"
		}
		b.Run(name, func(b *testing.B) {
			_, c := newFake(b, Options{})
			if watched {
				_, c = newWatching(b, Options{})
			}
			for b.Loop() {
				mem := mapped(b, 256, unix.MAP_PRIVATE)
				h := get(b, c, mem)
				for i := 0; i < len(mem); i += page {
					mem[i] = 1
				}
				h.Release()
				if !watched {
					c.Forget(mem)
				}
				unix.Munmap(mem)
			}
		})
	}
}

// A process that has as many mappings as it may keeps no region whose watch would cut one. The parts of a cut
// mapping are given back with the region.
func TestNoMappings(t *testing.T) {
	f, c := newWatching(t, Options{})
	mem := mapped(t, 3, unix.MAP_PRIVATE)
	taken := 0
	for mappings.Take() == nil {
		if taken++; taken > 1<<24 {
			t.Skip("the system has no limit to speak of")
		}
	}
	defer func() {
		for range taken {
			mappings.Give()
		}
	}()
	use := func() {
		h := get(t, c, mem[page:][:page])
		h.Release()
	}
	if use(); c.Stats().Unwatched != 1 {
		t.Errorf("with no mapping left: %+v", c.Stats())
	}
	for range 2 {
		mappings.Give()
		taken--
	}
	for range 2 { // the second time with the mappings that the first gave back
		use()
		if n, _ := f.count(); n != 1 || c.Stats().Unwatched != 1 {
			t.Errorf("%d regions: %+v", n, c.Stats())
		}
		c.Forget(mem)
	}
	unix.Munmap(mem)
}
