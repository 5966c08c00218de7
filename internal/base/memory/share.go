// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Sharer lets peers of the same host have regions mapped. Its methods are called with the device's
// lock held, and do not block.
type Sharer interface {
	// Allocate makes the memory of a region, which is a segment of its own. segment 0 means that
	// this region is not to be shared, or cannot be.
	Allocate(pd PD, size int, access verbs.Access) (buf []byte, unmap func(), segment uint64)
	// RegionAdded reports that a key stands for a region, as it is now, and RegionRemoved that it no
	// longer does; gone: the region has ended, and is not added again.
	RegionAdded(r *Region)
	RegionRemoved(r *Region, gone bool)
	// DomainRemoved reports the end of a protection domain, which has no regions.
	DomainRemoved(pd PD)
}

// ShareWith makes s the table's sharer, before there are regions.
func (t *Table) ShareWith(s Sharer) { t.sharer = s }

// Shared reports whether a scatter/gather entry is in a region that peers can have mapped, with a right.
func (t *Table) Shared(pd PD, sge *verbs.SGE, right verbs.Access) bool {
	e := t.entries[sge.LKey>>8]
	return e != nil && e.window == nil && e.key == sge.LKey && e.pd == pd && e.region.segment != 0 &&
		e.access&right != 0
}

// HostAddr returns the address of a scatter/gather entry's memory in this process, where the region keeps
// it. It stays until the region ends or changes, which is reported to the [Sharer].
func (t *Table) HostAddr(pd PD, sge *verbs.SGE) (addr uint64, ok bool) {
	s, ok := t.Local(pd, sge, false)
	if !ok || s.n == 0 || s.entry.weak != nil {
		return 0, false
	}
	return uint64(uintptr(unsafe.Pointer(s.first))), true
}

func (t *Table) added(r *Region) {
	if t.sharer != nil {
		t.sharer.RegionAdded(r)
	}
}

func (t *Table) removed(r *Region, gone bool) {
	if t.sharer != nil {
		t.sharer.RegionRemoved(r, gone)
	}
}

// DropDomain reports the end of a protection domain.
func (t *Table) DropDomain(pd PD) {
	if t.sharer != nil {
		t.sharer.DomainRemoved(pd)
	}
}

// Domain returns the region's protection domain.
func (r *Region) Domain() PD { return r.pd }

// HostMemory returns where the region's memory is in this process, and its length. The address is 0 if there
// is none that stays: the memory may be collected.
func (r *Region) HostMemory() (addr uint64, n int) {
	if r.weak != nil {
		return 0, r.weak.n
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.mem)))), len(r.mem)
}

// Segment returns the segment that the region is at the start of; 0: it is in none.
func (r *Region) Segment() uint64 { return r.segment }
