// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/ramjet-rdma/ramjet/verbs"

// Local finds the memory of a scatter/gather entry (IBTA 10.6.3). write says that the device will
// write to it.
func (t *Table) Local(pd PD, sge *verbs.SGE, write bool) (Span, bool) {
	e := t.entries[sge.LKey>>8]
	if e == nil || e.window != nil || e.key != sge.LKey || e.pd != pd || write && e.access&verbs.LocalWrite == 0 {
		return Span{}, false
	}
	return e.span(sge.Addr, uint64(sge.Length))
}

// lookup returns the region of a key, or the binding of its window; nil: there is none.
func (t *Table) lookup(key verbs.Key) *entry {
	e := t.entries[key>>8]
	if e != nil && e.window != nil {
		e = e.window.bound.Load()
	}
	if e == nil || e.key != key {
		return nil
	}
	return e
}

// Remote finds the memory that a peer names, with all the checks of IBTA 9.7.5.1.3 and 10.6.7: the
// key, its owner, the range, the access rights. qpn is the queue pair that received the request.
func (t *Table) Remote(pd PD, qpn verbs.QPN, key verbs.Key, addr uint64, n uint64, need verbs.Access) (Span, bool) {
	e := t.lookup(key)
	if e == nil || e.mem == nil || e.pd != pd || e.access&need != need || e.qpn != 0 && e.qpn != qpn {
		return Span{}, false
	}
	return e.span(addr, n)
}

// LookupCache caches the last result of Remote, or of Local, for a queue pair. While the key stands for the same
// memory, its owner and rights need not be checked again.
type LookupCache struct {
	entry *entry
	gen   uint32
	key   verbs.Key
	need  verbs.Access
}

// RemoteCached is Remote for requests of one queue pair that mostly name the same memory as the
// previous one.
func (t *Table) RemoteCached(l *LookupCache, pd PD, qpn verbs.QPN, key verbs.Key, addr uint64, n uint64,
	need verbs.Access) (Span, bool) {
	if e := l.entry; e != nil && e.gen.Load() == l.gen && l.key == key && l.need == need {
		return e.span(addr, n)
	}
	s, ok := t.Remote(pd, qpn, key, addr, n, need)
	if ok {
		*l = LookupCache{entry: s.entry, gen: s.gen, key: key, need: need}
	}
	return s, ok
}

// LocalCached is Local for the work requests of one queue pair, which mostly name the same memory as the
// previous one.
func (t *Table) LocalCached(l *LookupCache, pd PD, sge *verbs.SGE, write bool) (Span, bool) {
	if e := l.entry; e != nil && e.gen.Load() == l.gen && l.key == sge.LKey && (!write || l.need != 0) {
		return e.span(sge.Addr, uint64(sge.Length))
	}
	s, ok := t.Local(pd, sge, write)
	if ok {
		*l = LookupCache{entry: s.entry, gen: s.gen, key: sge.LKey}
		if write {
			l.need = verbs.LocalWrite
		}
	}
	return s, ok
}

// RemoteWhole is Remote for the whole region or window that key names.
func (t *Table) RemoteWhole(pd PD, qpn verbs.QPN, key verbs.Key, need verbs.Access) (Span, bool) {
	e := t.lookup(key)
	if e == nil {
		return Span{}, false
	}
	return t.Remote(pd, qpn, key, e.base, uint64(len(e.memory())), need)
}

func (e *entry) span(addr, n uint64) (Span, bool) {
	off, mem := addr-e.base, e.mem
	if e.weak != nil {
		if mem = e.memory(); mem == nil {
			return Span{}, false
		}
	}
	if addr < e.base || off > uint64(len(mem)) || n > uint64(len(mem))-off {
		return Span{}, false
	}
	return e.spanOf(mem[off : off+n]), true
}

// Watch counts the goroutines that wait for remote writes to a region.
func (t *Table) Watch(r *Region, delta int) {
	r.watchers += delta
	t.watched += delta
}

// TakeChanged reports whether a watched region was written to since the last call.
func (t *Table) TakeChanged() bool {
	return t.changed.Load() && t.changed.Swap(false) && t.watched > 0
}

// Written records that a peer wrote to the span's region.
func (t *Table) Written(s Span) {
	if t.watched > 0 && s.entry.region != nil && s.entry.region.watchers > 0 {
		t.changed.Store(true)
	}
}

// Refusal is why Remote failed.
type Refusal uint8

const (
	NoKey    Refusal = iota // no such key, or it is no longer valid
	NotOwner                // it belongs to another protection domain or queue pair
	Outside                 // the range is not within its memory
	NoRight                 // its access rights do not allow it
)

// RefusedLocal returns why Local returns false for the same arguments; false: it does not.
func (t *Table) RefusedLocal(pd PD, sge *verbs.SGE, write bool) (Refusal, bool) {
	e := t.entries[sge.LKey>>8]
	switch {
	case e == nil || e.window != nil || e.key != sge.LKey || e.memory() == nil:
		return NoKey, true
	case e.pd != pd:
		return NotOwner, true
	case write && e.access&verbs.LocalWrite == 0:
		return NoRight, true
	}
	_, ok := e.span(sge.Addr, uint64(sge.Length))
	return Outside, !ok
}

// Describe returns the memory behind a key; all is zero if for nothing.
func (t *Table) Describe(key verbs.Key) (addr, length uint64, access verbs.Access) {
	e := t.lookup(key)
	if e == nil {
		return 0, 0, 0
	}
	return e.base, uint64(len(e.memory())), e.access
}

// Refused returns why Remote returned false for the same arguments.
func (t *Table) Refused(pd PD, qpn verbs.QPN, key verbs.Key, addr uint64, n uint64, need verbs.Access) Refusal {
	e := t.lookup(key)
	if e == nil || e.memory() == nil {
		return NoKey
	}
	if e.pd != pd || e.qpn != 0 && e.qpn != qpn {
		return NotOwner
	}
	if _, ok := e.span(addr, n); !ok {
		return Outside
	}
	return NoRight
}
