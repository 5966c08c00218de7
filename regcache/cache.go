// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/mapwatch"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Options are the limits of a cache. The zero value is suitable.
type Options struct {
	// MaxBytes is how many bytes may be registered: 1 GiB if it is 0.
	MaxBytes int
	// MaxRegions is how many regions there may be: 1024 if it is 0.
	MaxRegions int
	// Register are the options of each registration.
	Register []verbs.RegOption
	// WatchMapped drops regions of mapped memory when the program unmaps it, moves it, maps something
	// else in its place or gives back its pages (MADV_DONTNEED, MADV_FREE, MADV_REMOVE). By the time
	// that the system call returns, Get finds none of them. It is for Linux (userfaultfd with write
	// protection); where the system refuses, New returns ErrNotSupported with the reason. Such a call
	// waits for a goroutine of the cache, so it must not be made with syscall.RawSyscall.
	WatchMapped bool
}

// Stats count the actions of a cache.
type Stats struct {
	Hits, Misses uint64 // calls of Get that found a region, and that registered one
	Merged       uint64 // regions that gave way to a region that overlaps them
	Evicted      uint64 // regions that the budget, or the system's limit, ended
	Forgotten    uint64 // regions that Forget ended
	Collected    uint64 // regions whose memory the garbage collector took
	Unmapped     uint64 // regions whose memory the program unmapped, or gave back (WatchMapped)
	// regions that ended with their handle: the system does not tell when their memory is unmapped (WatchMapped)
	Unwatched uint64
	Regions   int // open at present, including regions that end when they are released
	Bytes     int // registered at present
	InUse     int // handles that are not released
}

// Cache keeps memory of one protection domain registered. Its methods may be called by several
// goroutines at once.
type Cache struct {
	pd       *verbs.PD
	access   verbs.Access
	opt      Options
	unpinned bool              // regions have no options
	weak     atomic.Bool       // regions are weak: not if they are pinned, nor if the device has no such regions
	maps     *mapwatch.Watcher // reports mapped memory that goes away; nil: there is none
	watches  sync.Mutex        // around changes of the memory that maps watches; taken before mu

	mu     sync.Mutex
	index  index
	idle   list // regions that are not in use, the most recently released first
	stats  Stats
	closed bool
	dead   []*entry // whose memory has gone
	reaps  bool     // a goroutine closes them
	err    error    // of closing regions
}

// entry is a region of the cache.
type entry struct {
	cache    *Cache
	from     uintptr // of its memory
	to       uintptr
	keep     keeper
	mr       *verbs.MR     // nil: being registered
	ready    chan struct{} // closed when it is registered, or could not be; nil: that is over
	refs     int
	out      bool // not in the index: it ends when it is released
	closed   bool // not counted any more
	followed bool // maps watches its memory

	newer, older *entry // in idle
}

// New makes a cache for memory of pd, registered with access. Memory windows cannot be bound to its regions, because it
// could not close such regions. Nil options stand for the defaults.
func New(pd *verbs.PD, access verbs.Access, options *Options) (*Cache, error) {
	const op = "regcache"
	var opt Options
	if options != nil {
		opt = *options
	}
	if opt.MaxBytes < 0 || opt.MaxRegions < 0 {
		return nil, &verbs.OpError{Op: op, Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("a budget of %d bytes and %d regions", opt.MaxBytes, opt.MaxRegions)}
	}
	if access&verbs.MWBind != 0 {
		return nil, &verbs.OpError{Op: op, Err: verbs.ErrInvalid,
			Detail: "MWBind: a region with a window cannot be closed"}
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 1 << 30
	}
	if opt.MaxRegions == 0 {
		opt.MaxRegions = 1024
	}
	how, err := driver.RegOptionsOf(opt.Register)
	if err != nil {
		return nil, &verbs.OpError{Op: op, Err: err}
	}
	if how.Weak {
		return nil, &verbs.OpError{Op: op, Err: verbs.ErrInvalid, Detail: "Weak: the cache itself says so where it can"}
	}
	c := &Cache{pd: pd, access: access, opt: opt}
	if how.Mode == driver.RegOnDemand {
		c.access, c.opt.Register = access|verbs.OnDemand, nil
	}
	c.unpinned = len(c.opt.Register) == 0
	c.weak.Store(c.unpinned)
	if opt.WatchMapped {
		if err := c.watchMapped(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Handle is a buffer whose region stays until Release.
type Handle struct {
	e   *entry
	buf []byte
}

// Bytes returns the buffer.
func (h *Handle) Bytes() []byte { return h.buf }

// MR returns the region that the buffer is in. It is the cache's: it must not be closed or changed.
func (h *Handle) MR() *verbs.MR { return h.e.mr }

func (h *Handle) addr() uint64 {
	return h.e.mr.Addr() + uint64(uintptr(unsafe.Pointer(unsafe.SliceData(h.buf)))-h.e.from)
}

// SGE returns the n bytes of the buffer from off on. It does not check the bounds: the work request
// does, and checks the bounds of the region.
func (h *Handle) SGE(off, n int) verbs.SGE {
	return verbs.SGE{Addr: h.addr() + uint64(off), Length: uint32(n), LKey: h.e.mr.LKey()}
}

// Remote returns the address and key by which a peer reaches the buffer. The key is that of the whole region.
func (h *Handle) Remote() verbs.Remote { return verbs.Remote{Addr: h.addr(), Key: h.e.mr.RKey()} }

// Release ends the use of the buffer: after the completions of all work requests with it, and when
// no peer accesses it any more. A second call does nothing, but a handle and its copy count as one.
func (h *Handle) Release() {
	e := h.e
	if e == nil {
		return
	}
	*h = Handle{}
	c := e.cache
	c.mu.Lock()
	c.stats.InUse--
	e.refs--
	var ended list
	switch {
	case e.refs > 0:
	case e.out:
		c.end(e, &ended)
	default:
		c.idle.push(e)
		c.evict(0, 0, &ended)
	}
	c.mu.Unlock()
	c.close(&ended)
}

// Get returns a handle of buf, which it registers if no region has all of it. That takes as long as
// RegMR. Memory that is not Go's must stay mapped until [Cache.Forget], unless the cache watches it
// (Options.WatchMapped), and in any case until the handle is released. A buffer that is larger than
// the budget has a region of its own, which ends with the handle; all idle regions make room for it.
func (c *Cache) Get(buf []byte) (Handle, error) {
	if len(buf) == 0 {
		return Handle{}, &verbs.OpError{Op: "regcache", Err: verbs.ErrInvalid, Detail: "no bytes: they need no region"}
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	c.mu.Lock()
	if e := c.index.find(from, from+uintptr(len(buf))); e != nil && e.mr != nil && e.keep.alive() {
		c.stats.Hits++
		c.use(e)
		c.mu.Unlock()
		return Handle{e, buf}, nil
	}
	e, err := c.miss(buf, from, from+uintptr(len(buf)))
	return Handle{e, buf}, err
}

// use counts a handle.
func (c *Cache) use(e *entry) {
	if e.refs == 0 {
		c.idle.remove(e)
	}
	e.refs++
	c.stats.InUse++
}

// miss registers a buffer. It is called with the lock, and releases it.
func (c *Cache) miss(buf []byte, from, to uintptr) (*entry, error) {
	var ended list
	e, err := c.place(buf, from, to, &ended)
	c.mu.Unlock()
	c.close(&ended)
	if err != nil || e.mr != nil {
		return e, err
	}
	mr, err := c.register(e)
	c.mu.Lock()
	close(e.ready)
	e.ready = nil
	e.mr = mr
	if err != nil {
		c.stats.InUse--
		e.refs--
		if !e.out {
			c.index.remove(e)
		}
		c.discount(e)
	}
	c.mu.Unlock()
	if err != nil {
		c.unfollow(e)
		return nil, err
	}
	return e, nil
}

// place makes an entry for a buffer, or finds one that another goroutine has made meanwhile. A new
// entry is counted, and gets a place in the budget. It may release the lock for a while.
func (c *Cache) place(buf []byte, from, to uintptr, ended *list) (*entry, error) {
	for {
		if c.closed {
			return nil, &verbs.OpError{Op: "regcache", Err: verbs.ErrClosed}
		}
		if e := c.index.find(from, to); e != nil && e.mr != nil && e.keep.alive() {
			c.stats.Hits++
			c.use(e)
			return e, nil
		}
		ready := c.registering(from, to)
		if ready == nil {
			break
		}
		c.mu.Unlock()
		<-ready
		c.mu.Lock()
	}
	e := &entry{cache: c, from: from, to: to, ready: make(chan struct{}), refs: 1, keep: keeper{mem: buf}}
	e.out = len(buf) > c.opt.MaxBytes
	if !e.out {
		c.absorb(e, ended)
	}
	c.evict(e.size(), 1, ended)
	if !e.out {
		c.index.insert(e)
	}
	c.stats.Misses++
	c.stats.InUse++
	c.stats.Regions++
	c.stats.Bytes += e.size()
	return e, nil
}

// registering returns the channel to wait for before a range can be registered.
func (c *Cache) registering(from, to uintptr) chan struct{} {
	for _, e := range c.index.overlapping(from, to) {
		if e.ready != nil {
			return e.ready
		}
	}
	return nil
}

// absorb takes the entries that overlap with a new one from the index. The new entry has their memory,
// too, unless that is more than the budget.
func (c *Cache) absorb(e *entry, ended *list) {
	// A larger entry overlaps no entry that the smaller one does not, as entries of the index are disjoint.
	old := c.index.take(e.from, e.to)
	var parts []*entry
	from, to := e.from, e.to
	for _, o := range old {
		if o.keep.alive() {
			parts, from, to = append(parts, o), min(from, o.from), max(to, o.to)
		}
	}
	if to-from <= uintptr(c.opt.MaxBytes) {
		for _, o := range parts {
			e.keep.join(&o.keep, o.from < e.from, int(to-from))
		}
		e.from, e.to = from, to
	}
	for _, o := range old {
		o.out = true
		if o.keep.alive() {
			c.stats.Merged++
		} else {
			c.stats.Collected++
		}
		if o.refs == 0 {
			c.idle.remove(o)
			c.end(o, ended)
		}
	}
}

// register registers the memory of an entry. If it cannot, it lets go of idle regions, one after the
// other, until it can.
func (c *Cache) register(e *entry) (*verbs.MR, error) {
	for {
		mr, err := e.keep.register(c, e)
		if err == nil || !errors.Is(err, verbs.ErrPinLimit) && !errors.Is(err, verbs.ErrNoMemory) {
			return mr, err
		}
		var ended list
		c.mu.Lock()
		if c.idle.last != nil {
			c.drop(c.idle.last, &ended)
			c.stats.Evicted++
		}
		c.mu.Unlock()
		if ended.last == nil {
			return nil, err
		}
		c.close(&ended)
	}
}

// fits reports whether there is room for more in the budget.
func (c *Cache) fits(bytes, regions int) bool {
	return c.stats.Bytes <= c.opt.MaxBytes-bytes && c.stats.Regions <= c.opt.MaxRegions-regions
}

// evict drops idle regions until there is room, or none is left.
func (c *Cache) evict(bytes, regions int, ended *list) {
	for !c.fits(bytes, regions) && c.idle.last != nil {
		c.drop(c.idle.last, ended)
		c.stats.Evicted++
	}
}

// drop takes an idle entry away.
func (c *Cache) drop(e *entry, ended *list) {
	c.idle.remove(e)
	c.index.remove(e)
	e.out = true
	c.end(e, ended)
}

// end has an entry closed that is in no list and not in use.
func (c *Cache) end(e *entry, ended *list) {
	if !e.closed {
		c.discount(e)
		ended.push(e)
	}
}

// discount takes an entry out of the numbers.
func (c *Cache) discount(e *entry) {
	e.closed = true
	c.stats.Regions--
	c.stats.Bytes -= e.size()
}

func (e *entry) size() int { return int(e.to - e.from) }

// close closes regions. The lock is not held: it may take long.
func (c *Cache) close(ended *list) {
	for e := ended.last; e != nil; e = ended.last {
		ended.remove(e)
		e.keep.stop()
		c.unfollow(e)
		if err := e.mr.Close(); err != nil {
			c.mu.Lock()
			c.err = errors.Join(c.err, err)
			c.mu.Unlock()
		}
	}
}

// Forget ends all regions that overlap buf: the program is about to unmap it, or will not use it
// again. Regions that are in use are found no more, and end when they are released; Forget then
// returns ErrBusy, and the memory must stay until then.
func (c *Cache) Forget(buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	to := from + uintptr(len(buf))
	c.mu.Lock()
	for ready := c.registering(from, to); ready != nil; ready = c.registering(from, to) {
		c.mu.Unlock()
		<-ready
		c.mu.Lock()
	}
	var ended list
	busy := c.retire(c.index.take(from, to), &ended)
	c.mu.Unlock()
	c.close(&ended)
	if busy > 0 {
		return &verbs.OpError{Op: "regcache", Err: verbs.ErrBusy,
			Detail: fmt.Sprintf("%d regions of this memory end when they are released", busy)}
	}
	return nil
}

// retire ends entries that are out of the index, and returns how many of them are in use.
func (c *Cache) retire(entries []*entry, ended *list) (busy int) {
	for _, e := range entries {
		e.out = true
		c.stats.Forgotten++
		if e.refs > 0 {
			busy++
			continue
		}
		c.idle.remove(e)
		c.end(e, ended)
	}
	return busy
}

// Stats returns the counters of the cache so far.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Close ends all regions. Regions in use end when they are released; Close then returns
// ErrBusy, and may be called again. After it, Get returns ErrClosed.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	for ready := c.registering(0, ^uintptr(0)); ready != nil; ready = c.registering(0, ^uintptr(0)) {
		c.mu.Unlock()
		<-ready
		c.mu.Lock()
	}
	var ended list
	c.retire(c.index.take(0, ^uintptr(0)), &ended)
	c.mu.Unlock()
	c.close(&ended)
	if c.maps != nil {
		c.maps.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.stats.InUse; n > 0 {
		return &verbs.OpError{Op: "regcache", Err: verbs.ErrBusy, Detail: fmt.Sprintf("%d handles are not released", n)}
	}
	return c.err
}
