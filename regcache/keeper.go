// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"errors"
	"runtime"
	"unsafe"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// keeper is how an entry refers to its memory: so that it stays, or so that the garbage collector can
// take it.
type keeper struct {
	mem     []byte // nil: weakly
	first   weak.Pointer[byte]
	cleanup runtime.Cleanup
}

// alive reports whether the memory is there.
func (k *keeper) alive() bool { return k.mem != nil || k.first.Value() != nil }

// join makes k keep size bytes: its own and the bytes of another keeper, which is of the same memory
// and begins before k if below says so.
func (k *keeper) join(o *keeper, below bool, size int) {
	first := unsafe.SliceData(k.mem)
	if below {
		if first = unsafe.SliceData(o.mem); first == nil {
			first = o.first.Value()
		}
	}
	k.mem = unsafe.Slice(first, size)
}

// register registers the memory, and lets go of it if the region does not need it.
func (k *keeper) register(c *Cache, e *entry) (*verbs.MR, error) {
	if !c.unpinned {
		if c.maps != nil && !k.watch(e) {
			c.follow(e)
		}
		k.stop()
		return c.pd.RegMR(k.mem, c.access, c.opt.Register...)
	}
	if !k.watch(e) {
		c.follow(e)
		// Mapped memory: should the program forget to say that it has unmapped it, an access fails.
		mr, err := c.pd.RegMR(k.mem, c.access, verbs.External(uint64(e.from)))
		if errors.Is(err, verbs.ErrNotSupported) {
			mr, err = c.pd.RegMR(k.mem, c.access)
		}
		return mr, err
	}
	if c.weak.Load() {
		mr, err := c.pd.RegMR(k.mem, c.access, verbs.Weak())
		if err == nil {
			k.first, k.mem = weak.Make(unsafe.SliceData(k.mem)), nil
			return mr, nil
		}
		if !errors.Is(err, verbs.ErrNotSupported) {
			k.stop()
			return nil, err
		}
		c.weak.Store(false)
	}
	k.stop()
	return c.pd.RegMR(k.mem, c.access)
}

// watch has an entry dropped when its memory is collected. It reports whether Go has allocated the
// memory: AddCleanup panics if not.
func (k *keeper) watch(e *entry) (ok bool) {
	defer func() { ok = recover() == nil }()
	k.cleanup = runtime.AddCleanup(unsafe.SliceData(k.mem), (*entry).collected, e)
	return true
}

// stop ends the watch.
func (k *keeper) stop() { k.cleanup.Stop() }

// collected drops an entry whose memory is gone. A goroutine of its own closes the region, because
// that may wait for the device, and all cleanups of the program would wait with it.
func (e *entry) collected() {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.closed {
		return
	}
	if !e.out {
		c.index.remove(e)
		e.out = true
		c.stats.Collected++
		if e.refs == 0 {
			c.idle.remove(e)
		}
	}
	c.discount(e)
	c.bury(e)
}

// bury has the region of an entry closed whose memory has gone.
func (c *Cache) bury(e *entry) {
	c.dead = append(c.dead, e)
	if !c.reaps {
		c.reaps = true
		go c.reap()
	}
}

// reap closes the regions of memory that has gone.
func (c *Cache) reap() {
	for {
		c.mu.Lock()
		dead := c.dead
		c.dead = nil
		if len(dead) == 0 {
			c.reaps = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		var ended list
		for _, e := range dead {
			ended.push(e)
		}
		c.close(&ended)
	}
}
