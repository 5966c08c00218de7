// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Window is a memory window (IBTA 10.6.7). Its entry has memory while it is bound.
type Window struct {
	entry
	typ   verbs.MWType
	qpn   verbs.QPN // type 2, bound: the queue pair it works on
	freed bool
	noted bool

	Owner any // the device's own
}

// Description returns the description of a window for observers.
func (w *Window) Description() driver.MWInfo {
	i := driver.MWInfo{Key: w.key, PD: uint32(w.pd), Type: w.typ}
	if w.region != nil {
		i.Region, i.Addr, i.Len, i.Access = w.region.key, w.base, uint64(len(w.mem)), w.access
	}
	return i
}

// note records that the binding of a window has changed.
func (t *Table) note(w *Window) {
	if !w.noted {
		w.noted = true
		t.rebound = append(t.rebound, w)
	}
}

// IsRebound reports whether Rebound has windows to report.
func (t *Table) IsRebound() bool { return len(t.rebound) > 0 }

// Rebound calls do for the windows that were bound or unbound since the last call.
func (t *Table) Rebound(do func(*Window)) {
	if !t.IsRebound() {
		return // and write nothing: lanes of a device without windows call it at the same time
	}
	for i, w := range t.rebound {
		w.noted, t.rebound[i] = false, nil
		if !w.freed {
			do(w)
		}
	}
	t.rebound = t.rebound[:0]
}

// AllocWindow creates an unbound window.
func (t *Table) AllocWindow(pd PD, typ verbs.MWType) *Window {
	w := &Window{typ: typ}
	w.entry = entry{key: t.newKey(), pd: pd, window: w}
	t.entries[w.key>>8] = &w.entry
	return w
}

// Key returns the window's current key.
func (w *Window) Key() verbs.Key { return w.key }

// FreeWindow unbinds and ends a window.
func (t *Table) FreeWindow(w *Window) {
	if w.freed {
		return
	}
	w.unbind()
	t.free(&w.entry)
	w.freed = true
}

func (w *Window) unbind() {
	if w.region != nil {
		w.region.windows--
	}
	w.gen++
	w.region, w.mem, w.access, w.qpn = nil, nil, 0, 0
}

// Bind binds w to n bytes at addr of r, with the checks of IBTA 10.6.7.2. A type 2 window's key gets
// the low 8 bits of key, whose other bits are ignored, because the index is the device's (IBTA
// 10.6.7.2.2). The key of a type 1 window is incremented. Bind reports whether the binding was
// allowed.
func (t *Table) Bind(pd PD, qpn verbs.QPN, w *Window, r *Region, key verbs.Key, addr, n uint64,
	access verbs.Access) bool {
	if w.freed || w.pd != pd || t.entries[w.key>>8] != &w.entry { // the last: of another device
		return false
	}
	if w.typ == verbs.MWType2 && (w.region != nil || n == 0) {
		return false
	}
	if n == 0 { // type 1: unbind
		w.unbind()
		w.key = nextKey(w.key)
		t.note(w)
		return true
	}
	if r == nil || r.mem == nil || t.entries[r.key>>8] != &r.entry || r.pd != pd || r.access&verbs.MWBind == 0 {
		return false
	}
	if access&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0 && r.access&verbs.LocalWrite == 0 {
		return false
	}
	if access&^(verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic|verbs.ZeroBased|verbs.FlushGlobal|
		verbs.FlushPersistent) != 0 {
		return false
	}
	if flush := access & (verbs.FlushGlobal | verbs.FlushPersistent); flush&^r.access != 0 {
		return false // a window cannot grant what its region was not registered for (IBTA annex A19)
	}
	s, ok := r.span(addr, n)
	if !ok {
		return false
	}
	w.unbind()
	w.region, w.mem, w.foreign, w.access, w.qpn = r, s.Bytes(), r.foreign, access, qpn
	w.base = addr
	if access&verbs.ZeroBased != 0 {
		w.base = 0
	}
	if w.typ == verbs.MWType2 {
		w.key = w.key&^keyPortion | key&keyPortion
	} else {
		w.key = nextKey(w.key)
	}
	r.windows++
	t.note(w)
	return true
}

// keyPortion is the bits of a window's key that the program chooses (IBTA 10.6.7.2).
const keyPortion = 0xff

// nextKey increments the key portion.
func nextKey(k verbs.Key) verbs.Key { return k&^keyPortion | (k+1)&keyPortion }

// Invalidate ends the binding of a type 2 window, by a LocalInv work request or by a
// peer's SEND with invalidate (IBTA 10.6.7.2.5).
func (t *Table) Invalidate(pd PD, qpn verbs.QPN, key verbs.Key) bool {
	e := t.entries[key>>8]
	if e == nil || e.key != key || e.pd != pd || e.window == nil {
		return false
	}
	w := e.window
	if w.typ != verbs.MWType2 || w.region == nil || w.qpn != qpn {
		return false
	}
	w.unbind()
	t.note(w)
	return true
}
