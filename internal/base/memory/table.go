// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// PD is the number of a protection domain.
type PD uint32

// quarantine is how many freed keys are kept from being reused.
const quarantine = 4096

// Table has all keys of a device. Regions and windows come and go with the locks of all lanes held, and are looked up
// with that of one. Windows are bound under a lock of the table's own, to bindings that never change but only end.
//
// The upper 24 bits of a key are random and find the region or window. The low 8 bits are part of the check, and for
// windows the program's.
type Table struct {
	entries   map[verbs.Key]*entry // by key>>8
	random    func() uint32
	freed     []verbs.Key // ring of key>>8 in quarantine
	oldest    int
	allocAddr func(size int) uint64 // chooses addresses; nil: the memory's own
	bindings  bindings
	watched   int         // regions that somebody waits on
	changed   atomic.Bool // a watched region was written to
	sharer    Sharer      // nil: peers have no part of the memory mapped
	accesses  Accesses    // nil: nobody follows the operations of peers
}

// entry is the object of a key: a region, a window, or the binding of a window to a part of a region. The table has
// windows, which have no memory, and windows have their bindings.
type entry struct {
	key     verbs.Key
	gen     atomic.Uint32 // incremented when the region or binding of the key ends or changes
	pd      PD
	access  verbs.Access
	foreign bool        // the memory may be unmapped
	base    uint64      // address of mem's first byte, in SGEs and at peers
	mem     []byte      // nil: a window, or a deregistered region
	weak    *weakMemory // instead of mem, which is then empty
	region  *Region
	window  *Window
	qpn     verbs.QPN // of the only queue pair that may use the binding; 0: all of the domain may
}

// Region is a memory region.
type Region struct {
	entry
	segment  uint64 // of the [Sharer] that it is at the start of; 0: none
	windows  int    // bound to it; under the lock of bindings
	watchers int
	unmap    func()
	orphaned runtime.Cleanup // calls unmap for a region whose table was closed
}

// NewTable makes an empty table. random must be unpredictable to peers.
func NewTable(random func() uint32) *Table {
	return &Table{entries: make(map[verbs.Key]*entry), random: random, freed: make([]verbs.Key, 0, 16)}
}

// newKey returns a key that is not in use and was not recently.
func (t *Table) newKey() verbs.Key {
	for {
		k := verbs.Key(t.random())
		if k>>8 == 0 || t.entries[k>>8] != nil || t.inQuarantine(k>>8) {
			continue
		}
		return k
	}
}

func (t *Table) inQuarantine(index verbs.Key) bool {
	for _, f := range t.freed {
		if f == index {
			return true
		}
	}
	return false
}

// free takes an entry out of the table.
func (t *Table) free(e *entry) {
	e.gen.Add(1)
	delete(t.entries, e.key>>8)
	if len(t.freed) < quarantine {
		t.freed = append(t.freed, e.key>>8)
		return
	}
	t.freed[t.oldest] = e.key >> 8
	t.oldest = (t.oldest + 1) % quarantine
}

// Register makes a region of buf, which stays alive as long as the region. It may have 0 bytes.
func (t *Table) Register(pd PD, buf []byte, access verbs.Access) (*Region, error) {
	r := t.register(pd, buf, access)
	t.added(r)
	return r, nil
}

func (t *Table) register(pd PD, buf []byte, access verbs.Access) *Region {
	r := &Region{entry: entry{key: t.newKey(), pd: pd, access: access, mem: notNil(buf)}}
	r.region = r
	t.setBase(r)
	t.entries[r.key>>8] = &r.entry
	return r
}

// notNil returns buf, or an empty slice instead of nil, which would mean that there is no memory.
func notNil(buf []byte) []byte {
	if buf == nil {
		return []byte{}
	}
	return buf
}

// RegisterExternal is Register for memory that may be unmapped, in a region whose first byte has
// the address iova.
func (t *Table) RegisterExternal(pd PD, buf []byte, iova uint64, access verbs.Access) (*Region, error) {
	if iova+uint64(len(buf)) < iova {
		return nil, &verbs.OpError{Op: "reg_mr", Err: verbs.ErrInvalid, Detail: "the addresses go round"}
	}
	r := t.register(pd, buf, access)
	r.foreign = true
	if access&verbs.ZeroBased == 0 {
		r.base = iova
	}
	t.added(r)
	return r, nil
}

// RegisterMapped is Register for memory that is mapped for the region, which calls unmap when it ends. It
// may be of a file that becomes shorter.
func (t *Table) RegisterMapped(pd PD, buf []byte, unmap func(), access verbs.Access) *Region {
	r := t.register(pd, buf, access)
	r.foreign, r.unmap = true, unmap
	t.added(r)
	return r
}

// Allocate makes a region of new memory outside the Go heap.
func (t *Table) Allocate(pd PD, size int, access verbs.Access) (*Region, error) {
	var buf []byte
	var unmap func()
	var segment uint64
	if t.sharer != nil {
		buf, unmap, segment = t.sharer.Allocate(pd, size, access)
	}
	if segment == 0 {
		var err error
		if buf, unmap, err = allocate(size, access&verbs.HugePages != 0); err != nil {
			return nil, err
		}
	}
	r := t.register(pd, buf, access)
	r.unmap, r.segment = unmap, segment
	t.added(r)
	return r, nil
}

func (t *Table) setBase(r *Region) {
	switch {
	case r.access&verbs.ZeroBased != 0:
		r.base = 0
	case t.allocAddr != nil:
		r.base = t.allocAddr(len(r.memory()))
	default:
		r.base = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.memory()))))
	}
}

// AllocateAddrsWith makes place choose the addresses of regions, which are otherwise the memory's own.
// It is for reproducible runs.
func (t *Table) AllocateAddrsWith(place func(size int) uint64) { t.allocAddr = place }

// Reregister changes the properties that flags name. The key changes with the memory.
func (t *Table) Reregister(r *Region, flags verbs.ReregFlags, pd PD, buf []byte, access verbs.Access) error {
	if r.mem == nil {
		return verbs.ErrClosed
	}
	if r.windows > 0 {
		return verbs.ErrBusy
	}
	if flags&verbs.ReregTranslation != 0 && r.unmap != nil {
		return &verbs.OpError{Op: "rereg_mr", Err: verbs.ErrInvalid,
			Detail: "the memory was allocated by the device: it goes with the region"}
	}
	if flags&verbs.ReregTranslation != 0 && r.weak != nil {
		return &verbs.OpError{Op: "rereg_mr", Err: verbs.ErrInvalid,
			Detail: "the memory of a weak region cannot change: register another region"}
	}
	t.removed(r, false)
	defer t.added(r)
	if flags&verbs.ReregTranslation != 0 {
		t.free(&r.entry)
		r.key = t.newKey()
		t.entries[r.key>>8] = &r.entry
		r.mem = notNil(buf)
	}
	if flags&verbs.ReregPD != 0 {
		r.pd = pd
	}
	based := r.access & verbs.ZeroBased
	if flags&verbs.ReregAccess != 0 {
		r.access = access
	}
	r.gen.Add(1)
	if flags&verbs.ReregTranslation != 0 || r.access&verbs.ZeroBased != based {
		t.setBase(r)
	}
	return nil
}

// Deregister ends a region and frees its memory. It returns ErrBusy while a window is bound to it.
func (t *Table) Deregister(r *Region) error {
	unmap, err := t.Detach(r)
	if err == nil {
		unmap()
	}
	return err
}

// Detach is Deregister that leaves freeing the memory to the caller, which takes the system about
// 50 ms for a GiB.
func (t *Table) Detach(r *Region) (unmap func(), err error) {
	unmap = func() {}
	if r.mem == nil {
		return unmap, nil
	}
	if r.windows > 0 {
		return nil, verbs.ErrBusy
	}
	t.removed(r, true)
	t.free(&r.entry)
	r.mem = nil
	if r.unmap != nil {
		r.orphaned.Stop()
		unmap, r.unmap = r.unmap, nil
	}
	return unmap, nil
}

// Addr returns the address of the first byte, in SGEs and at peers.
func (r *Region) Addr() uint64 { return r.base }

// Key returns the region's key, which is both its local and its remote one.
func (r *Region) Key() verbs.Key { return r.key }

// Access returns the region's access flags.
func (r *Region) Access() verbs.Access { return r.access }

// Bytes returns the memory.
func (r *Region) Bytes() []byte { return r.memory() }

// Len returns how many keys are in use.
func (t *Table) Len() int { return len(t.entries) }

// Close ends all regions and windows. The memory of a region stays until Deregister, or until the
// region is unreachable: the program may be in the middle of a copy.
func (t *Table) Close() {
	for _, e := range t.entries {
		if e.window != nil {
			t.FreeWindow(e.window)
		}
	}
	for _, e := range t.entries {
		t.removed(e.region, true)
		t.free(e)
		if r := e.region; r.unmap != nil {
			r.orphaned = runtime.AddCleanup(r, func(unmap func()) { unmap() }, r.unmap)
		}
	}
}
