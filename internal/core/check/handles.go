// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Handles are the objects of a C program, by their addresses. They are checked as calls begin, before anybody looks
// into the memory there.
type Handles struct {
	c *Checker

	mu      sync.Mutex
	all     map[uintptr]*handle // that exist, and that were destroyed
	gone    []*handle           // that were destroyed, the oldest first: as many as are remembered
	threads map[uintptr]*thread
}

// Use is an object that a call names.
type Use struct {
	Kind string // as the log of calls names it
	Key  uintptr
	Ends bool // the call destroys it
}

// Made is an object that a call has created.
type Made struct {
	Kind     string
	Key      uintptr
	Name     string // empty: by its kind
	Single   bool   // one thread uses it at a time
	Internal bool   // the libraries destroy it
}

// handle is an object.
type handle struct {
	Made
	made   Place
	gone   *Place  // where it was destroyed; nil: it exists
	ends   *thread // which is destroying it
	ending Place   // where
	users  []*thread
	holder *thread // between ibv_start_poll and ibv_end_poll, or ibv_wr_start and ibv_wr_complete
	events []event // that the program has got, and not acknowledged
}

// event is such an event.
type event struct {
	key uintptr // of a struct rdma_cm_event; 0: another
	got Place
}

// thread is a thread of the program.
type thread struct {
	call    string
	place   Place // of the call
	uses    []*handle
	refused bool
}

// maxEvents is how many unacknowledged events of an object are remembered.
const maxEvents = 1024

// Handles returns the objects of a C program. With them the objects that are left at exit, and what happens to
// completion channels, are looked for here and not at the devices.
func (c *Checker) Handles() *Handles {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handles == nil {
		c.handles = &Handles{c: c, all: map[uintptr]*handle{}, threads: map[uintptr]*thread{}}
	}
	return c.handles
}

// waits reports whether a call waits for events: it is no use of an object that another thread may not destroy.
func waitsForEvents(call string) bool {
	return call == "ibv_get_cq_event" || call == "rdma_get_cm_event" || call == "ibv_get_async_event"
}

// Begin checks the objects of a call that begins. It returns false if the call must not be made: one of them is gone.
func (h *Handles) Begin(id uintptr, call string, stack Stack, uses []Use) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.threads[id]
	if t == nil {
		t = &thread{}
		h.threads[id] = t
	}
	h.leave(t) // a call that never returned, as its thread was canceled
	t.call, t.place, t.refused = call, Place{"It was used", time.Now(), stack}, false
	for _, u := range uses {
		o := h.all[u.Key]
		if o != nil && o.Kind == u.Kind && o.gone != nil {
			h.late(t, o, u.Ends)
			t.refused = true
		}
	}
	if t.refused {
		return false
	}
	for _, u := range uses {
		if o := h.all[u.Key]; o != nil && o.Kind == u.Kind {
			h.enter(t, o, u.Ends)
		}
	}
	return true
}

// late reports the use of an object that is gone.
func (h *Handles) late(t *thread, o *handle, ends bool) {
	f := &Finding{UseAfterDestroy, fmt.Sprintf("%s was given %s.", t.call, o.Name), []Place{t.place, *o.gone, o.made}}
	if ends {
		f.Rule = DoubleDestroy
		f.Places[0].What = "It was destroyed again"
	}
	h.c.Report(f)
}

// enter notes that a thread uses an object, and reports other threads that do.
func (h *Handles) enter(t *thread, o *handle, ends bool) {
	if waitsForEvents(t.call) || t.call == "ibv_ack_cq_events" {
		return // while it is acknowledged, another thread may wait for that to destroy it
	}
	if o.ends != nil && o.ends != t && len(o.events) == 0 {
		h.c.Report(&Finding{ConcurrentUse, fmt.Sprintf("%s was given %s, which another thread was destroying by %s.",
			t.call, o.Name, o.ends.call), []Place{t.place, o.ending, o.made}})
	}
	others := slices.IndexFunc(o.users, func(u *thread) bool { return u != t })
	switch {
	case ends && o.ends == nil && others >= 0:
		u := o.users[others]
		h.c.Report(&Finding{ConcurrentUse, fmt.Sprintf("%s destroyed %s while another thread was in %s with it.",
			t.call, o.Name, u.call),
			[]Place{t.place, u.place, o.made}})
	case o.Single && (others >= 0 || o.holder != nil && o.holder != t):
		u := o.holder
		if others >= 0 {
			u = o.users[others]
		}
		h.c.Report(&Finding{ConcurrentUse,
			fmt.Sprintf("%s is for one thread at a time: %s was given it while another was using it, in %s.",
				o.Name, t.call, u.call), []Place{t.place, u.place, o.made}})
	}
	if ends && o.ends == nil {
		o.ends, o.ending = t, t.place
		o.ending.What = "It was destroyed"
	}
	o.users = append(o.users, t)
	t.uses = append(t.uses, o)
}

// End notes that the call of a thread has ended.
func (h *Handles) End(id uintptr, failed bool, made []Made) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.threads[id]
	if t == nil || t.refused {
		return
	}
	used := t.uses
	h.leave(t)
	for _, o := range used {
		switch {
		case t.call == "ibv_start_poll" && !failed, t.call == "ibv_wr_start":
			o.holder = t
		case t.call == "ibv_end_poll", t.call == "ibv_wr_complete", t.call == "ibv_wr_abort":
			o.holder = nil
		}
		if o.ends != t {
			continue
		}
		o.ends = nil
		if !failed {
			h.remove(o)
		}
	}
	if failed {
		return
	}
	for _, m := range made {
		h.add(t, m)
	}
}

// leave notes that a thread no longer uses the objects of its call.
func (h *Handles) leave(t *thread) {
	for _, o := range t.uses {
		if i := slices.Index(o.users, t); i >= 0 {
			o.users = slices.Delete(o.users, i, i+1)
		}
	}
	t.uses = t.uses[:0]
}

// add notes a new object. One that is known stays what it is.
func (h *Handles) add(t *thread, m Made) {
	if o := h.all[m.Key]; m.Key == 0 || o != nil && o.gone == nil && o.Kind == m.Kind {
		return
	}
	if m.Name == "" {
		m.Name = fmt.Sprintf("%s%d", m.Kind, h.c.number(m.Kind))
	}
	o := &handle{Made: m, made: t.place}
	o.made.What = "It was created"
	h.all[m.Key] = o
}

// remove notes that an object was destroyed.
func (h *Handles) remove(o *handle) {
	place := o.ending
	o.gone, o.events = &place, nil
	h.gone = append(h.gone, o)
	if len(h.gone) <= maxGone {
		return
	}
	if first := h.gone[0]; h.all[first.Key] == first {
		delete(h.all, first.Key)
	}
	h.gone = slices.Delete(h.gone, 0, 1)
}

// Got notes that a thread has got an event of an object. Of one of the connection manager key is its address.
func (h *Handles) Got(id, object, key uintptr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, t := h.all[object], h.threads[id]
	if o == nil || t == nil || o.gone != nil || len(o.events) >= maxEvents {
		return
	}
	place := t.place
	place.What = "An event of it was taken"
	o.events = append(o.events, event{key, place})
}

// Acknowledged notes that n events of an object were acknowledged: that at key, unless it is 0.
func (h *Handles) Acknowledged(object, key uintptr, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.all[object]
	if o == nil {
		return
	}
	if i := slices.IndexFunc(o.events, func(e event) bool { return key != 0 && e.key == key }); i >= 0 {
		o.events = slices.Delete(o.events, i, i+1)
		return
	}
	o.events = slices.Delete(o.events, 0, min(n, len(o.events)))
}

// Unread reports an event of an object that nobody has read as the program ends. Where the program did not create the
// object, it is one of the device; empty: such an event goes with its object, and is reported only if leaks are.
func (h *Handles) Unread(object uintptr, device, event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of, f := device, &Finding{Rule: EventsLeft}
	if o := h.all[object]; o != nil && o.gone == nil && !o.Internal {
		of, f.Places = o.Name, []Place{o.made}
	}
	if of == "" || device == "" && !h.c.on(Leak) {
		return
	}
	f.Detail = fmt.Sprintf("%s: %s was never read.", of, event)
	h.c.Report(f)
}

// Unacknowledged reports a call that waits for events of an object to be acknowledged, as those that destroy it do.
func (h *Handles) Unacknowledged(object uintptr) {
	f := &Finding{EventUnacknowledged, "An object has events that nobody has acknowledged.",
		[]Place{at("The call that waits for them")}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.all[object]; o != nil && len(o.events) > 0 {
		f.Detail = fmt.Sprintf(
			"%s has %d that were taken. The call goes on, and would never return without the checker.",
			o.Name, len(o.events))
		f.Places = append(f.Places, o.events[0].got, o.made)
	}
	h.c.Report(f)
}

// exit reports what is left as the program ends.
func (h *Handles) exit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	kinds := map[string][]*handle{}
	for _, o := range h.all {
		if o.gone != nil {
			continue
		}
		if n := len(o.events); n > 0 {
			h.c.Report(&Finding{EventsLeft, fmt.Sprintf("%d of %s were taken, and are not acknowledged.", n, o.Name),
				[]Place{o.events[0].got, o.made}})
		}
		if o.Kind != "event" && !o.Internal {
			kinds[o.Kind] = append(kinds[o.Kind], o)
		}
	}
	var places []Place
	var names []string
	for _, all := range kinds {
		slices.SortFunc(all, func(a, b *handle) int { return a.made.When.Compare(b.made.When) })
		for _, o := range all {
			names = append(names, o.Name)
		}
		first := all[0].made
		first.What = all[0].Name + " was created"
		places = append(places, first)
	}
	if len(places) == 0 {
		return
	}
	slices.Sort(names)
	slices.SortFunc(places, func(a, b Place) int { return a.When.Compare(b.When) })
	h.c.Report(&Finding{Leak, fmt.Sprintf("%d are left: %s.", len(names), strings.Join(names, ", ")), places})
}
