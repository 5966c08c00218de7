// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"github.com/ramjet-rdma/ramjet/internal/system/mappings"
	"github.com/ramjet-rdma/ramjet/internal/system/mapwatch"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// watchMapped has the cache told of mapped memory that goes away.
func (c *Cache) watchMapped() error {
	w, err := mapwatch.New(&c.mu, c.unmapped)
	if err != nil {
		return &verbs.OpError{Op: "regcache", Err: verbs.ErrNotSupported, Detail: "WatchMapped: " + err.Error()}
	}
	c.maps = w
	return nil
}

// unmapped drops the entries of memory that has gone. It is called with the lock, before the thread that
// unmaps the memory goes on: from then on no call finds them. A goroutine of its own closes the regions,
// because that may wait, and all threads that unmap memory would wait with it.
func (c *Cache) unmapped(from, to uintptr) {
	for _, e := range c.index.take(from, to) {
		e.out = true
		c.stats.Unmapped++
		if e.refs > 0 {
			continue // it ends when it is released
		}
		c.idle.remove(e)
		c.discount(e)
		c.bury(e)
	}
}

// follow has the cache told when the memory of an entry goes away. An entry of which the system does not
// tell is of no use to others than its handle.
func (c *Cache) follow(e *entry) {
	if c.maps == nil {
		return
	}
	c.watches.Lock()
	err := c.cut(e)
	c.watches.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		e.followed = true
		return
	}
	c.stats.Unwatched++
	if !e.out {
		e.out = true
		c.index.remove(e)
	}
}

// cut watches an entry's pages, which cuts their mapping in three. watches is held.
func (c *Cache) cut(e *entry) error {
	if err := mappings.Take(); err != nil {
		return err
	}
	if err := mappings.Take(); err != nil {
		mappings.Give()
		return err
	}
	err := c.maps.Watch(e.from, e.to)
	if err != nil {
		mappings.Give()
		mappings.Give()
	}
	return err
}

// unfollow ends that for the pages of a closed entry, except for pages that entries of the index have. An
// entry that comes later is watched later: after this, because of the lock.
func (c *Cache) unfollow(e *entry) {
	if !e.followed {
		return
	}
	c.watches.Lock()
	defer c.watches.Unlock()
	from, to := mapwatch.Pages(e.from, e.to)
	var free [][2]uintptr
	c.mu.Lock()
	for _, o := range c.index.overlapping(from, to) {
		first, end := mapwatch.Pages(o.from, o.to)
		if from < first {
			free = append(free, [2]uintptr{from, first})
		}
		from = max(from, end)
	}
	c.mu.Unlock()
	if from < to {
		free = append(free, [2]uintptr{from, to})
	}
	for _, r := range free {
		c.maps.Unwatch(r[0], r[1])
	}
	mappings.Give()
	mappings.Give()
}
