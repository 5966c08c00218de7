// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"unsafe"
)

// Pages protects whole pages of C programs until their completion is polled. The device uses memory of the checker's
// meanwhile, see bounces. In Go it would be unsound: the runtime ends a program whose own code faults.
type Pages struct {
	Protect func(low, high uintptr) (guard int) // 0: they are not protected
	Release func(guard int) *Touch              // nil: the program has not touched them
}

// Touch is the first access of a program to protected pages.
type Touch struct {
	At    uintptr
	How   string // used, read or written
	Place Place
}

var pages Pages // without functions: none are protected

// UsePages has pages protected, before any work request is posted.
func UsePages(p Pages) { pages = p }

// protect protects the whole pages of a work request that the device writes to, and is not posted yet. It is called
// without d.mu: another thread may destroy the queue meanwhile.
func (d *Device) protect(r *request) {
	if pages.Protect == nil || !d.c.opts.Protect {
		return
	}
	size := uintptr(os.Getpagesize())
	for i := range r.pieces {
		p := &r.pieces[i]
		if p.bounce == nil {
			continue
		}
		at := uintptr(unsafe.Pointer(unsafe.SliceData(p.mem)))
		low, high := (at+size-1)&^(size-1), (at+uintptr(len(p.mem)))&^(size-1)
		if low >= high {
			continue
		}
		guard := pages.Protect(low, high)
		d.mu.Lock()
		p.guard = guard
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.posted[r.token] != r { // it has ended with its queue
		d.unprotect(r)
	}
}

// unprotect makes the pages of a work request usable, and reports an access of the program. It is called with d.mu
// held.
func (d *Device) unprotect(r *request) {
	for i := range r.pieces {
		p := &r.pieces[i]
		if p.guard == 0 {
			continue
		}
		t := pages.Release(p.guard)
		p.guard = 0
		if t == nil || r.touched {
			continue
		}
		r.touched = true
		rule := ReceiveTouched
		if r.recvs == nil {
			rule = ReadTouched
		}
		at := p.addr + uint64(t.At-uintptr(unsafe.Pointer(unsafe.SliceData(p.mem))))
		d.report(r.qp, &Finding{rule, fmt.Sprintf(
			"%s of %s: the byte at %#x of %s was %s before the completion was polled.", r.name(), d.queue(r),
			at, d.nameOf(p.region.mr), t.How), []Place{r.posted, t.Place}})
	}
}
