// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxOwn is how many entries of work requests in a region are remembered.
const maxOwn = 128

// owned names a region that peers may write to.
type owned struct {
	dev *Device
	key verbs.Key
}

// ownWork has what the owner of a region has posted in it last.
type ownWork struct{ ring[ownEntry] }

// ownEntry is the memory of a work request's scatter/gather entry.
type ownEntry struct {
	*posted
	lo, hi uintptr
	region *region
}

// own notes the memory of a work request, and reports whether peers may write to any.
func (h *history) own(p *posted, pieces []piece) (any bool) {
	for i := range pieces {
		s := &pieces[i]
		if s.region.access&verbs.RemoteWrite == 0 || len(s.mem) <= word {
			continue
		}
		any = true
		w := s.region.own
		if w == nil {
			w = &ownWork{}
			s.region.own = w
			h.owners[owned{p.end.dev, s.region.mr.RKey()}] = w
		}
		lo := uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))
		e := ownEntry{p, lo, lo + uintptr(len(s.mem)), s.region}
		p.refs++
		if old, full := w.add(e, maxOwn); full {
			h.release(old.posted)
		}
	}
	return any
}

// disown forgets a region.
func (h *history) disown(key owned) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.owners, key)
}

// judgeOwner looks for work requests of the owner that were concurrent with a peer's WRITE.
func (h *history) judgeOwner(a *access) {
	w := h.owners[owned{a.at.dev, a.remote.Key}]
	if w == nil || !a.alters() {
		return
	}
	for i := range w.all {
		switch e := &w.all[i]; {
		case a.lo >= e.hi || e.lo >= a.hi:
		case h.unordered(a, e.posted):
			h.foundOwner(a, e)
		default:
			own := *e
			e.kept = true
			h.ask(foreign{a: a, own: &own})
		}
	}
}

// judgeReceive looks for WRITEs that were concurrent with the message that has come to a receive.
func (h *history) judgeReceive(p *posted) {
	for _, a := range h.accesses {
		if a == nil || a.ended == 0 || a.at.dev != p.end.dev || !a.alters() || !h.unordered(a, p) {
			continue
		}
		w := h.owners[owned{a.at.dev, a.remote.Key}]
		for i := 0; w != nil && i < len(w.all); i++ {
			if e := &w.all[i]; e.posted == p && a.lo < e.hi && e.lo < a.hi {
				h.foundOwner(a, e)
			}
		}
	}
}

// alters reports whether an operation has changed memory that is more than a word.
func (a *access) alters() bool { return operations[a.op].writes() && a.changed && !a.small() }

// unordered reports whether neither of a peer's WRITE and a work request of the owner waited for the other.
func (h *history) unordered(a *access, p *posted) bool {
	since := a.since()
	switch {
	case p.void:
		return false
	case p.recv: // the peer that sends the message, and this one
		return p.from != nil && p.end != a.at && p.from.at < a.last && since < p.done && before(since, p.from.done)
	case operations[p.op].results:
		return p.at < a.last && before(since, p.done)
	case since < p.at:
		return p.at < a.last
	}
	// The peer may have got the data of a SEND before its completion is polled, and WRITE over it.
	l := h.logs[p.end]
	return l != nil && l.typ == verbs.RC && operations[p.op].sends && h.peer(p.end) != nil &&
		before(since, p.done) && before(since, p.heard) && !h.behind(l, p, since)
}

// before reports whether a time is before another one, which may not have come yet.
func before(t, event uint64) bool { return event == 0 || t < event }

// behind reports whether the peer of a queue pair may have noticed an operation behind another before the clock said
// now.
func (h *history) behind(l *postLog, p *posted, now uint64) bool {
	peer := h.peer(l.end)
	for _, o := range h.accesses {
		if o != nil && peer != nil && o.at == peer.end && o.began > p.at && o.began < now {
			return true
		}
	}
	return false
}

// foundOwner has a race with the owner's work reported.
func (h *history) foundOwner(a *access, e *ownEntry) {
	own := *e
	a.kept, e.kept = true, true
	h.report(a.at, func() *Finding { return ownRace(a, &own, time.Now()) })
}

func ownRace(a *access, e *ownEntry, now time.Time) *Finding {
	d := a.at.dev
	peers := a.describe()
	d.mu.Lock()
	defer d.mu.Unlock()
	name := "receive"
	if !e.recv {
		name = e.op.String()
	}
	queue := "a shared receive queue"
	if q := d.known.qps[e.end.qpn]; q != nil {
		queue = d.nameOf(q.qp)
	}
	place := e.place
	place.What = fmt.Sprintf("%s %#x of %s was posted", name, e.id, queue)
	lo, hi := max(a.lo, e.lo), min(a.hi, e.hi)
	return &Finding{Race, fmt.Sprintf("%s and %s %#x of %s, which owns the memory, have %d bytes from %#x on in common: neither waited for the other.",
		peers, name, e.id, queue, hi-lo, a.remote.Addr+uint64(lo-a.lo)), []Place{place, a.place(now)}}
}
