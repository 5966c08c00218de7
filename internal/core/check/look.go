// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxPartial is how many WRITEs are kept that were noticed too early.
const maxPartial = 64

// partial is a WRITE that was noticed by other bytes than its last, or before these came. That is a mistake unless the
// program waits for its end in another way.
type partial struct {
	access  *access
	finding func() *Finding
}

// Look checks that a WRITE that a program waits for is noticed by its last byte. Nobody knows when its other bytes
// appear (IBTA 9.5). If the program waits for a whole region, it is not known which of the bytes it looks at.
func (d *Device) Look(mr *verbs.MR, off, n int, cond func(b []byte) bool) (watched func(b []byte) bool, seen func()) {
	mem := mr.Bytes()
	if off < 0 || n > len(mem) || off > len(mem)-n {
		return cond, func() {}
	}
	l := &look{h: d.c.history, d: d, mr: mr, off: off, n: n, any: n == len(mem) && n > word,
		place: at("It was waited for")}
	l.lo = uintptr(unsafe.Pointer(unsafe.SliceData(mem))) + uintptr(off)
	l.hi = l.lo + uintptr(n)
	l.began = l.h.look(l.lo, l.hi)
	return l.watch(cond), l.seen
}

// look is a wait for memory.
type look struct {
	h      *history
	d      *Device
	mr     *verbs.MR
	off, n int
	any    bool // of the bytes, others may be without interest
	waited bool // the condition was false at first
	lo, hi uintptr
	began  uint64
	place  Place
}

// look notes that a program looks at memory: it knows of the WRITEs that end there. It returns the time.
func (h *history) look(lo, hi uintptr) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.partials = slices.DeleteFunc(h.partials, func(p partial) bool { return lo < p.access.hi && p.access.hi <= hi })
	return h.tick()
}

// watch returns a condition that notes whether a WRITE that is under way has made it true. It is called with the
// device's lock held.
func (l *look) watch(cond func(b []byte) bool) func(b []byte) bool {
	return func(b []byte) bool {
		if !cond(b) {
			l.waited = true
			return false
		}
		if l.any != l.waited { // else it may be old, or seen sees it
			return true
		}
		since := uint64(0)
		if l.waited {
			since = l.began
		}
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		if a := l.h.underWay(l.lo, l.hi, since, !l.any); a != nil && (l.any || a.hi > l.hi) {
			l.h.partly(a, func() *Finding { return l.finding(a, "changed before the end of") })
		}
		return true
	}
}

// seen is called once the condition is true.
func (l *look) seen() {
	if l.any {
		return
	}
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	switch a := h.flagged(l.lo, l.hi); {
	case a == nil:
	case a.by != nil:
		h.news(a.by, a.at)
	default:
		h.tellNoticed(a.at, &posted{op: a.op, remote: a.remote, length: int(a.hi - a.lo)})
	}
	if !l.waited {
		return
	}
	if a := h.noticed(l.lo, l.hi, l.began); a != nil {
		h.partly(a, func() *Finding { return l.finding(a, "are in the middle of") })
	}
}

// partly keeps a WRITE that was noticed too early.
func (h *history) partly(a *access, f func() *Finding) {
	if len(h.partials) < maxPartial {
		a.kept = true
		h.partials = append(h.partials, partial{a, f})
	}
}

// heardOf forgets the WRITEs to a queue pair that were noticed too early: its program has got a message.
func (h *history) heardOf(at endpoint) {
	h.partials = slices.DeleteFunc(h.partials, func(p partial) bool { return p.access.at == at })
}

// settleLooks reports the WRITEs that were noticed too early, and not waited for otherwise.
func (h *history) settleLooks() {
	for _, p := range h.partials {
		h.report(endpoint{}, p.finding)
	}
	h.partials = nil
}

func (l *look) finding(a *access, how string) *Finding {
	l.d.mu.Lock()
	name := l.d.nameOf(l.mr)
	l.d.mu.Unlock()
	return &Finding{PartialPoll, fmt.Sprintf("%d bytes at %#x of %s were waited for, and %s %s which ends at %#x.", l.n,
		l.mr.Addr()+uint64(l.off), name, how, a.describe(), a.remote.Addr+uint64(a.hi-a.lo)), []Place{l.place,
		a.place(time.Now())}}
}

// noticed returns the WRITE that has changed memory since the clock said began, if its last byte is elsewhere. If
// several may have changed it, it is one only if that is so with all.
func (h *history) noticed(lo, hi uintptr, began uint64) (found *access) {
	for _, a := range h.accesses {
		if a == nil || a.ended != 0 && a.ended < began || a.reads() || a.hi <= lo || hi <= a.lo {
			continue
		}
		if operations[a.op].atomic() || a.small() || lo < a.hi && a.hi <= hi && a.ended != 0 {
			return nil
		}
		if found == nil {
			found = a
		}
	}
	return found
}

// underWay returns the WRITE to memory that is under way, if it is the only operation there since the clock said began:
// its last bytes have not come, or if that is enough, its requester has not polled the completion.
func (h *history) underWay(lo, hi uintptr, began uint64, unpolled bool) (found *access) {
	for _, a := range h.accesses {
		if a == nil || a.reads() || a.hi <= lo || hi <= a.lo || a.ended != 0 && a.ended < began {
			continue
		}
		open := a.ended == 0 && a.last == a.began || unpolled && a.by != nil && a.by.done == 0
		if found != nil || !open || operations[a.op].atomic() || a.small() {
			return nil
		}
		found = a
	}
	return found
}

// flagged returns the last operation at a word of memory, if it has ended.
func (h *history) flagged(lo, hi uintptr) (found *access) {
	for _, a := range h.accesses {
		if a != nil && !a.reads() && a.small() && lo < a.hi && a.lo < hi &&
			(found == nil || a.began > found.began) {
			found = a
		}
	}
	if found == nil || found.ended == 0 {
		return nil
	}
	return found
}
