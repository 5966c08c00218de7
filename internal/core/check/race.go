// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"
)

// maxMaybe is how many READs beside WRITEs are kept until the program ends.
const maxMaybe = 256

// conflict is two operations at the same bytes that were concurrent.
type conflict struct {
	a, b *access
}

// since returns when an operation began for its program, as far as is known.
func (a *access) since() uint64 {
	switch {
	case a.by != nil:
		return a.by.at
	case a.sent != 0:
		return a.sent
	}
	return a.began
}

// concurrent reports whether neither of two operations waited for the other.
func (a *access) concurrent(o *access) bool { return a.since() < o.last && o.since() < a.last }

// small reports whether an operation is at one word: programs use such for flags, versions and locks.
func (a *access) small() bool { return a.hi-a.lo <= word && a.lo/word == (a.hi-1)/word }

// reads reports whether an operation changes nothing.
func (a *access) reads() bool { return !operations[a.op].changes }

// judge looks for operations that were concurrent with one that has ended.
func (h *history) judge(a *access) {
	for o := range h.meeting(a) {
		switch {
		case o.ended == 0:
		case !a.concurrent(o):
			h.ask(foreign{a: a, b: o})
		case a.reads() || o.reads():
			h.judgeRead(a, o)
		case a.conflicts(o):
			h.foundRace(o, a)
		}
	}
}

// conflicts reports whether it matters which of two operations that change memory was first.
func (a *access) conflicts(o *access) bool {
	switch x, y := &operations[a.op], &operations[o.op]; {
	case x.atomic() && y.atomic(), x.stores() && o.small(), y.stores() && a.small():
		return false
	}
	return a.changed && o.changed
}

// judgeRead keeps a READ that was concurrent with a WRITE. It is a mistake unless the program looks at what it has
// read, by a version or a checksum, and reads again; which is known in the end.
func (h *history) judgeRead(a, o *access) {
	read, write := a, o
	if o.reads() {
		read, write = o, a
	}
	if operations[write.op].word || write.small() || read.small() || !write.changed {
		return
	}
	// A READ that was carried out as a whole before or after the WRITE is no mistake of two programs that look so.
	together := read.from != nil && write.from != nil && read.from.end.dev == write.from.end.dev
	interleaved := read.began < write.last && write.began < read.last
	if (together || interleaved) && len(h.maybe) < maxMaybe && !h.optimistic(read) {
		read.kept, write.kept = true, true
		h.maybe = append(h.maybe, conflict{read, write})
	}
}

// optimistic reports whether the queue pair of a READ reads the same bytes more than once, or words such as versions.
func (h *history) optimistic(read *access) bool {
	for _, o := range h.accesses {
		if o != nil && o != read && o.at == read.at &&
			(operations[o.op].atomic() || o.reads() && (o.small() || o.lo < read.hi && read.lo < o.hi)) {
			return true
		}
	}
	return false
}

// settle reports the READs beside WRITEs that were not read again, and WRITEs of which the target was told or took
// notice too early.
func (h *history) settle() {
	h.resolve(func(*postLog) bool { return true })
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.maybe {
		if !h.optimistic(c.a) {
			h.foundRace(c.a, c.b)
		}
	}
	h.maybe = nil
	h.settleEarly()
	h.settleLooks()
}

// foundRace has a race reported.
func (h *history) foundRace(a, b *access) {
	a.kept, b.kept = true, true
	h.report(a.at, func() *Finding { return race(a, b, time.Now()) })
}

// unreported is a finding that is to be reported once no device's lock is held.
type unreported struct {
	at      endpoint        // whose last packets are shown; without a device: none
	finding func() *Finding // nil: it is none after all
}

// report has a finding reported from a place where no device's lock is held.
func (h *history) report(at endpoint, f func() *Finding) {
	if len(h.found) < maxMaybe {
		h.found = append(h.found, unreported{at, f})
		h.waiting.Store(true)
	}
}

func race(a, b *access, now time.Time) *Finding {
	lo, hi := max(a.lo, b.lo), min(a.hi, b.hi)
	return &Finding{Race,
		fmt.Sprintf("%s and %s have %d bytes from %#x on in common: each was posted before the other was carried out.",
			a.describe(), b.describe(), hi-lo, a.remote.Addr+uint64(lo-a.lo)), []Place{a.place(now), b.place(now)}}
}

// describe names an operation, its memory and its queue pairs.
func (a *access) describe() string {
	a.at.dev.mu.Lock()
	defer a.at.dev.mu.Unlock()
	region, at := "a region", "a queue pair"
	if r := a.at.dev.known.regions[a.remote.Key]; r != nil {
		region = a.at.dev.nameOf(r.mr)
	}
	if q := a.at.dev.known.qps[a.at.qpn]; q != nil {
		at = a.at.dev.nameOf(q.qp)
	}
	if a.from == nil {
		return fmt.Sprintf("%v of %d bytes at %#x of %s, from the peer of %s,", a.op, a.hi-a.lo, a.remote.Addr,
			region, at)
	}
	return fmt.Sprintf("%v %#x of %s, %d bytes at %#x of %s,", a.by.op, a.by.id, a.from.name, a.hi-a.lo, a.remote.Addr,
		region)
}

// place returns where an operation was posted, if this process has done it.
func (a *access) place(now time.Time) Place {
	if a.by != nil {
		p := a.by.place
		p.What = fmt.Sprintf("%v %#x of %s was posted", a.by.op, a.by.id, a.from.name)
		return p
	}
	return Place{What: fmt.Sprintf("%v of another process, which it does not tell the place of, was carried out", a.op),
		When: now}
}

// flush reports the findings that wait for a place where no lock is held.
func (c *Checker) flush() {
	h := c.history
	if !h.waiting.Load() {
		return
	}
	h.resolve(func(*postLog) bool { return false })
	h.mu.Lock()
	found := h.found
	h.found = nil
	h.waiting.Store(false)
	h.mu.Unlock()
	for _, u := range found {
		f, d := u.finding(), u.at.dev
		switch {
		case f == nil:
		case d == nil:
			c.Report(f)
		default:
			d.mu.Lock()
			q := d.known.qps[u.at.qpn]
			d.mu.Unlock()
			d.report(q, f)
		}
	}
}
