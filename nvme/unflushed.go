// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"errors"
	"sync"
)

// ErrWriteCacheLost is the error of a Flush if the connection was lost after a Write that no Flush has made durable.
// The target may have lost its power meanwhile, and the write with its cache: repeat the writes since the last Flush.
var ErrWriteCacheLost = errors.New(
	"the controller was lost before the flush: writes since the flush before may be lost")

// unflushed are the writes that a disk has done and not flushed.
type unflushed struct {
	mu      sync.Mutex
	writes  uint64 // that have completed
	pending []writeMark
}

// writeMark says on which association writes have completed: the writes from a number on, to the next mark.
type writeMark struct{ first, generation uint64 }

// wrote takes note of a write on an association.
func (u *unflushed) wrote(generation uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.writes++
	if k := len(u.pending); k == 0 || u.pending[k-1].generation != generation {
		u.pending = append(u.pending, writeMark{u.writes, generation})
	}
}

// covers returns the writes that a flush that begins now covers: writes up to a number, and the first association of
// any of them; 0: there are none.
func (u *unflushed) covers() (last, oldest uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.pending {
		if oldest == 0 || m.generation < oldest {
			oldest = m.generation
		}
	}
	return u.writes, oldest
}

// flushed takes note of a flush that has covered writes up to a number.
func (u *unflushed) flushed(last uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.pending) > 1 && u.pending[1].first <= last+1 {
		u.pending = u.pending[1:]
	}
	if len(u.pending) == 0 {
		return
	}
	if u.writes <= last {
		u.pending = nil
	} else if m := &u.pending[0]; m.first <= last {
		m.first = last + 1
	}
}
