// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"unsafe"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// weakMemory is memory that a region does not keep alive. A span of it does, so memory in use by the
// device stays.
type weakMemory struct {
	first weak.Pointer[byte]
	n     int
}

// bytes returns the memory, or nil if it was collected.
func (w *weakMemory) bytes() []byte {
	if p := w.first.Value(); p != nil {
		return unsafe.Slice(p, w.n)
	}
	return nil
}

// RegisterWeak is Register in a region that does not keep buf alive. Go must have allocated buf. After
// buf was collected, every access is refused.
func (t *Table) RegisterWeak(pd PD, buf []byte, access verbs.Access) (*Region, error) {
	r := t.register(pd, buf, access)
	if len(buf) > 0 {
		r.weak = &weakMemory{weak.Make(unsafe.SliceData(buf)), len(buf)}
		r.mem = []byte{} // the region is open
	}
	t.added(r)
	return r, nil
}

// memory returns the memory of an entry: nil if there is none, or if it was collected.
func (e *entry) memory() []byte {
	if e.weak != nil && e.mem != nil {
		return e.weak.bytes()
	}
	return e.mem
}
