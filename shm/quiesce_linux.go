// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// A peer that has begun an operation in mapped memory when a right to it ends may be stopped in the middle, for as long
// as it likes. Nobody waits for that long: the pages where it works are replaced by others with the same contents
// (docs/decisions/0023-shm.md).

// quiesceWait bounds the wait for a peer that is in the middle of an operation. It has at most 256 KiB to copy.
const quiesceWait = time.Millisecond

// Quiesce returns when the peer is no longer at work in memory of this process, or has it no longer. It has lost rights
// of its queue pair's. Other memory than that of segments cannot be taken away: a peer that copies there by the system
// is waited for, and no more.
func (l *link) Quiesce() {
	if l.domain == nil || l.peer == nil {
		return
	}
	l.domain.quiesce(0, l)
	for end := time.Now().Add(quiesceWait); l.peer.Work()%2 == 1 && time.Now().Before(end); {
		time.Sleep(quiesceWait / 50)
	}
}

// quiesce has peers finish their operations in the memory of a region, 0: of any, or takes the memory away from them.
// The entries that allowed these have been withdrawn.
func (d *domain) quiesce(key uint32, from ...*link) {
	if len(d.entries) == 0 {
		return
	}
	shmem.Barrier()
	for _, l := range from {
		if l.peer != nil {
			d.quiesceOne(key, l)
		}
	}
}

func (d *domain) quiesceOne(only uint32, l *link) {
	for end := time.Now().Add(quiesceWait); ; time.Sleep(quiesceWait / 50) {
		key, addr, n := l.peer.Using()
		switch {
		case n == 0, only != 0 && key != only:
			return
		case time.Now().After(end):
			d.renew(key, addr, n)
			return
		}
	}
}

// renew replaces the pages of n bytes of a region. From then on peers do nothing there by themselves.
func (d *domain) renew(key uint32, addr, n uint64) {
	e, ok := d.entries[key]
	if !ok {
		return
	}
	off, ok := e.Range(addr, n)
	s := d.net.segments[e.Segment]
	if !ok || s == nil {
		return
	}
	d.pub.Withdraw(key)
	delete(d.shared, e.Segment)
	s.Renew(int(off), int(n)) // fails if the system has no memory: then the peer keeps it
	d.spread(e.Segment)
	d.Publish(e)
}
