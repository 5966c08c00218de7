// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Look checks that a WRITE that a program waits for is noticed by its last byte. Nobody knows when its other bytes appear
// (IBTA 9.5).
func (d *Device) Look(mr *verbs.MR, off, n int) (seen func()) {
	mem := mr.Bytes()
	if off < 0 || n > len(mem) || off > len(mem)-n {
		return func() {}
	}
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(mem))) + uintptr(off)
	place := at("It was waited for")
	h := d.c.history
	h.mu.Lock()
	began := h.tick()
	h.mu.Unlock()
	return func() {
		a := h.noticed(lo, lo+uintptr(n), began)
		if a == nil {
			return
		}
		d.mu.Lock()
		name := d.nameOf(mr)
		d.mu.Unlock()
		d.c.Report(&Finding{PartialPoll, fmt.Sprintf("%d bytes at %#x of %s were waited for, and are in the middle of %s which ends at %#x.", n,
			mr.Addr()+uint64(off), name, a.describe(), a.remote.Addr+uint64(a.hi-a.lo)), []Place{place, a.place(time.Now())}})
	}
}

// noticed returns the WRITE that changed memory since the clock said began, if its last byte is elsewhere. If several may
// have changed it, it is one only if that is so with all.
func (h *history) noticed(lo, hi uintptr, began uint64) *access {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *access
	for _, a := range h.accesses {
		if a == nil || a.began < began || a.op == verbs.OpRead || a.hi <= lo || hi <= a.lo {
			continue
		}
		if isAtomic(a.op) || a.small() || lo < a.hi && a.hi <= hi && a.ended != 0 {
			return nil
		}
		if found == nil {
			c := *a
			found = &c
		}
	}
	return found
}
