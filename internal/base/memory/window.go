// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Window is a memory window (IBTA 10.6.7). Its entry is in the table for as long as the window exists.
type Window struct {
	entry // changed under the lock of bindings, except the domain and the upper bits of the key, which never change
	typ   verbs.MWType
	bound atomic.Pointer[entry] // nil: unbound; changed under the lock of bindings
	freed bool
	noted bool

	table *Table
	Owner any // the device's own
}

// bindings is the state that binding windows changes. Queue pairs of several lanes may bind at the same time. A look-up
// of memory reads Window.bound alone.
type bindings struct {
	mu      lockorder.Mutex[lockorder.Leaf]
	changed []*Window     // that Rebound has yet to report
	any     atomic.Bool   // there are some
	ended   atomic.Uint32 // bindings that all queue pairs could use
}

// Description returns the description of a window for observers. The lock of bindings is held, or nobody else knows
// the window.
func (w *Window) Description() driver.MWInfo {
	i := driver.MWInfo{Key: w.key, PD: uint32(w.pd), Type: w.typ}
	if b := w.bound.Load(); b != nil {
		i.Region, i.Addr, i.Len, i.Access = b.region.key, b.base, uint64(len(b.mem)), b.access
	}
	return i
}

// note records that the binding of a window has changed.
func (t *Table) note(w *Window) {
	if !w.noted {
		w.noted = true
		t.bindings.changed = append(t.bindings.changed, w)
		t.bindings.any.Store(true)
	}
}

// IsRebound reports whether Rebound has windows to report.
func (t *Table) IsRebound() bool { return t.bindings.any.Load() }

// Rebound calls do for the windows that were bound or unbound since the last call.
func (t *Table) Rebound(do func(*Window)) {
	if !t.IsRebound() {
		return
	}
	t.bindings.mu.Lock()
	defer t.bindings.mu.Unlock()
	for i, w := range t.bindings.changed {
		w.noted, t.bindings.changed[i] = false, nil
		if !w.freed {
			do(w)
		}
	}
	t.bindings.changed = t.bindings.changed[:0]
	t.bindings.any.Store(false)
}

// Ended returns how many bindings have ended that queue pairs of all lanes could use: some of them may be in the middle
// of an access by one.
func (t *Table) Ended() uint32 { return t.bindings.ended.Load() }

// AllocWindow creates an unbound window.
func (t *Table) AllocWindow(pd PD, typ verbs.MWType) *Window {
	w := &Window{entry: entry{key: t.newKey(), pd: pd}, typ: typ, table: t}
	w.window = w
	t.entries[w.key>>8] = &w.entry
	return w
}

// Key returns the window's current key.
func (w *Window) Key() verbs.Key {
	w.table.bindings.mu.Lock()
	defer w.table.bindings.mu.Unlock()
	return w.key
}

// FreeWindow unbinds and ends a window.
func (t *Table) FreeWindow(w *Window) {
	t.bindings.mu.Lock()
	defer t.bindings.mu.Unlock()
	if w.freed {
		return
	}
	w.unbind()
	t.free(&w.entry)
	w.freed = true
}

func (w *Window) unbind() {
	b := w.bound.Swap(nil)
	if b == nil {
		return
	}
	b.gen.Add(1)
	b.region.windows--
	if b.qpn == 0 {
		w.table.bindings.ended.Add(1)
	}
}

// Bind binds w to n bytes at addr of r, with the checks of IBTA 10.6.7.2. A type 2 window's key gets
// the low 8 bits of key, whose other bits are ignored, because the index is the device's (IBTA
// 10.6.7.2.2). The key of a type 1 window is incremented. Bind reports whether the binding was
// allowed.
func (t *Table) Bind(pd PD, qpn verbs.QPN, w *Window, r *Region, key verbs.Key, addr, n uint64,
	access verbs.Access) bool {
	t.bindings.mu.Lock()
	defer t.bindings.mu.Unlock()
	if w.freed || w.pd != pd || t.entries[w.key>>8] != &w.entry { // the last: of another device
		return false
	}
	if w.typ == verbs.MWType2 && (w.bound.Load() != nil || n == 0) {
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
		return false // a window cannot grant accesses that its region was not registered for (IBTA annex A19)
	}
	s, ok := r.span(addr, n)
	if !ok {
		return false
	}
	w.unbind()
	b := &entry{pd: pd, access: access, foreign: r.foreign, base: addr, mem: s.Bytes(), region: r, window: w}
	if access&verbs.ZeroBased != 0 {
		b.base = 0
	}
	if w.typ == verbs.MWType2 {
		w.key = w.key&^keyPortion | key&keyPortion
		b.qpn = qpn
	} else {
		w.key = nextKey(w.key)
	}
	b.key = w.key
	w.bound.Store(b)
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
	t.bindings.mu.Lock()
	defer t.bindings.mu.Unlock()
	b := t.lookup(key)
	if b == nil || b.window == nil || b.pd != pd || b.window.typ != verbs.MWType2 || b.qpn != qpn {
		return false
	}
	b.window.unbind()
	t.note(b.window)
	return true
}
