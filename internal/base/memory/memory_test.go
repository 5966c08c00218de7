// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	pd  memory.PD = 1
	qpn           = verbs.QPN(5)
)

const everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind

func newTable() *memory.Table { return memory.NewTable(rand.New(rand.NewPCG(1, 2)).Uint32) }

func register(t *testing.T, m *memory.Table, buf []byte, access verbs.Access) *memory.Region {
	t.Helper()
	r, err := m.Register(pd, buf, access)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sge(r *memory.Region, off, n int) verbs.SGE {
	return verbs.SGE{Addr: r.Addr() + uint64(off), Length: uint32(n), LKey: r.Key()}
}

// A key that was in use is not given out again for a while, even by a source of numbers
// that would.
func TestKeysAreNotReused(t *testing.T) {
	n := uint32(0)
	m := memory.NewTable(func() uint32 { n++; return n % 3 << 8 })
	a := register(t, m, make([]byte, 1), 0)
	b := register(t, m, make([]byte, 1), 0)
	if a.Key()>>8 != 1 || b.Key()>>8 != 2 {
		t.Fatalf("keys %x and %x: 0 is no key, and one in use is not taken", a.Key(), b.Key())
	}
	old := a.Key()
	if err := m.Deregister(a); err != nil {
		t.Fatal(err)
	}
	fresh := memory.NewTable(rand.New(rand.NewPCG(3, 4)).Uint32)
	seen := map[verbs.Key]bool{}
	for range 3000 {
		r := register(t, fresh, make([]byte, 1), 0)
		if seen[r.Key()>>8] {
			t.Fatalf("key %x came again", r.Key())
		}
		seen[r.Key()>>8] = true
		fresh.Deregister(r)
	}
	if _, ok := m.Remote(pd, qpn, old, a.Addr(), 1, 0); ok || m.Len() != 1 {
		t.Error("a key works after its region")
	}
}

func TestLocal(t *testing.T) {
	m := newTable()
	buf := make([]byte, 100)
	r := register(t, m, buf, verbs.LocalWrite)
	ro := register(t, m, make([]byte, 100), 0)
	w := m.AllocWindow(pd, verbs.MWType2)
	beyond, before, wrap, window, wrong := sge(r, 50, 51), sge(r, -1, 5), sge(r, 0, 5), sge(r, 0, 5), sge(r, 0, 5)
	wrap.Addr = 1<<64 - 2
	window.LKey = w.Key()
	wrong.LKey ^= 1 // the low bits are part of the check
	for name, c := range map[string]struct {
		sge   verbs.SGE
		pd    memory.PD
		write bool
		ok    bool
	}{
		"whole":              {sge(r, 0, 100), pd, true, true},
		"empty at the end":   {sge(r, 100, 0), pd, true, true},
		"beyond the end":     {beyond, pd, true, false},
		"before the start":   {before, pd, true, false},
		"around":             {wrap, pd, true, false},
		"other domain":       {sge(r, 0, 5), pd + 1, true, false},
		"read of read-only":  {sge(ro, 0, 5), pd, false, true},
		"write of read-only": {sge(ro, 0, 5), pd, true, false},
		"window's key":       {window, pd, false, false},
		"wrong low bits":     {wrong, pd, false, false},
	} {
		if s, ok := m.Local(c.pd, &c.sge, c.write); ok != c.ok || ok && s.Len() != int(c.sge.Length) {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestRemoteRights(t *testing.T) {
	m := newTable()
	for _, need := range []verbs.Access{verbs.RemoteRead, verbs.RemoteWrite, verbs.RemoteAtomic, verbs.FlushGlobal,
		verbs.FlushPersistent} {
		with, without := register(t, m, make([]byte, 8), need|verbs.LocalWrite),
			register(t, m, make([]byte, 8), (everything|verbs.FlushGlobal|verbs.FlushPersistent)&^need)
		if _, ok := m.Remote(pd, qpn, with.Key(), with.Addr(), 8, need); !ok {
			t.Errorf("%v is refused where it is allowed", need)
		}
		if _, ok := m.Remote(pd, qpn, without.Key(), without.Addr(), 8, need); ok {
			t.Errorf("%v is allowed where it is not", need)
		}
		if _, ok := m.Remote(pd+1, qpn, with.Key(), with.Addr(), 8, need); ok {
			t.Errorf("%v from another domain", need)
		}
		if s, ok := m.RemoteWhole(pd, qpn, with.Key(), need); !ok || s.Len() != 8 {
			t.Errorf("%v of the whole region: %v", need, ok)
		}
	}
	if _, ok := m.RemoteWhole(pd, qpn, 0x12345678, 0); ok {
		t.Error("a key that is none")
	}
}

// A span ends with its region, or with the binding of its key.
func TestSpansEnd(t *testing.T) {
	for name, end := range map[string]func(m *memory.Table, r *memory.Region){
		"deregistered": func(m *memory.Table, r *memory.Region) { m.Deregister(r) },
		"other memory": func(m *memory.Table, r *memory.Region) {
			m.Reregister(r, verbs.ReregTranslation, 0, make([]byte, 200), 0)
		},
		"other domain": func(m *memory.Table, r *memory.Region) { m.Reregister(r, verbs.ReregPD, pd+1, nil, 0) },
		"other access": func(m *memory.Table, r *memory.Region) { m.Reregister(r, verbs.ReregAccess, 0, nil, 0) },
		"table closed": func(m *memory.Table, _ *memory.Region) { m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			m := newTable()
			buf := make([]byte, 100)
			r := register(t, m, buf, everything)
			e := sge(r, 10, 20)
			s, _ := m.Local(pd, &e, true)
			part := s.Sub(5, 5)
			var c memory.Cursor
			if !c.Set(m, pd, []verbs.SGE{e}, true) || !s.Valid() || !c.Write(m, []byte{1}) {
				t.Fatal("not valid before")
			}
			end(m, r)
			if s.Valid() || part.Valid() || s.Write(m, 0, []byte{9}) || c.Write(m, []byte{9}) {
				t.Error("still valid")
			}
			if _, ok := c.Next(1); ok {
				t.Error("the cursor goes on")
			}
			if bytes.IndexByte(buf, 9) >= 0 {
				t.Error("memory was written to")
			}
		})
	}
}

func TestReregister(t *testing.T) {
	m := newTable()
	r := register(t, m, make([]byte, 8), 0)
	key := r.Key()
	if err := m.Reregister(r, verbs.ReregAccess, 0, nil, verbs.LocalWrite); err != nil || r.Key() != key {
		t.Errorf("access: %v, key %x", err, r.Key())
	}
	e := sge(r, 0, 8)
	if _, ok := m.Local(pd, &e, true); !ok {
		t.Error("the new access is not in force")
	}
	if err := m.Reregister(r, verbs.ReregTranslation, 0, make([]byte, 16), 0); err != nil || r.Key() == key ||
		len(r.Bytes()) != 16 || m.Len() != 1 {
		t.Errorf("memory: %v, key %x, %d keys", err, r.Key(), m.Len())
	}
	if err := m.Reregister(r, verbs.ReregTranslation, 0, nil, 0); err != nil || r.Bytes() == nil ||
		len(r.Bytes()) != 0 {
		t.Errorf("to no bytes: %v", err)
	}
	if _, ok := m.Remote(pd, qpn, r.Key(), r.Addr(), 1, 0); ok {
		t.Error("a byte of none")
	}
	m.Deregister(r)
	if err := m.Reregister(r, verbs.ReregAccess, 0, nil, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}

func TestZeroBased(t *testing.T) {
	m := newTable()
	r := register(t, m, make([]byte, 8), verbs.ZeroBased|verbs.RemoteRead)
	if r.Addr() != 0 {
		t.Fatalf("address %x", r.Addr())
	}
	if _, ok := m.Remote(pd, qpn, r.Key(), 4, 4, verbs.RemoteRead); !ok {
		t.Error("an offset is refused")
	}
	if _, ok := m.Remote(pd, qpn, r.Key(), uint64(uintptr(unsafe.Pointer(&r.Bytes()[0]))), 4, verbs.RemoteRead); ok {
		t.Error("the memory's address is allowed")
	}
}

func TestAllocate(t *testing.T) {
	m := newTable()
	for _, access := range []verbs.Access{verbs.LocalWrite, verbs.LocalWrite | verbs.HugePages} {
		r, err := m.Allocate(pd, 5000, access)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Bytes()) != 5000 || r.Addr()%4096 != 0 {
			t.Errorf("%d bytes at %x", len(r.Bytes()), r.Addr())
		}
		r.Bytes()[4999] = 1
		if err := m.Reregister(r, verbs.ReregTranslation, 0, make([]byte, 8), 0); err == nil {
			t.Error("allocated memory was exchanged")
		}
		if err := m.Deregister(r); err != nil || r.Bytes() != nil {
			t.Errorf("%v", err)
		}
		if err := m.Deregister(r); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}

func TestCursor(t *testing.T) {
	m := newTable()
	buf := make([]byte, 64)
	r := register(t, m, buf, verbs.LocalWrite)
	list := []verbs.SGE{sge(r, 0, 3), {LKey: 0xbad}, sge(r, 10, 1), sge(r, 20, 4)} // an empty entry needs no key
	var c memory.Cursor
	for range 2 { // its memory is reused
		if !c.Set(m, pd, list, true) || c.Len() != 8 || c.Pos() != 0 {
			t.Fatalf("%d bytes, at %d", c.Len(), c.Pos())
		}
	}
	if !c.Write(m, []byte("abcd")) || c.Pos() != 4 || !c.Write(m, nil) || !c.Write(m, []byte("efgh")) {
		t.Fatal("what fits is refused")
	}
	if c.Write(m, []byte("i")) || !c.Write(m, nil) {
		t.Error("beyond the end")
	}
	if string(buf[0:3])+string(buf[10:11])+string(buf[20:24]) != "abcdefgh" {
		t.Errorf("%q", buf)
	}
	for _, pos := range []int{8, 0, 5, 3, 4, 8, 1} {
		c.Seek(pos)
		if c.Pos() != pos {
			t.Errorf("at %d, want %d", c.Pos(), pos)
		}
		var got []byte
		for len(got) < 8-pos {
			b, ok := c.Next(8 - pos - len(got))
			if !ok || len(b) == 0 {
				t.Fatal("it ends early")
			}
			got = append(got, b...)
		}
		if string(got) != "abcdefgh"[pos:] {
			t.Errorf("from %d on: %q", pos, got)
		}
	}
	c.Seek(6)
	if c.Write(m, []byte("xyz")) || string(buf[22:24]) != "xy" {
		t.Errorf("what fits before the end was not written: %q", buf[20:24])
	}
	if c.Set(m, pd, []verbs.SGE{sge(r, 0, 65)}, true) {
		t.Error("an entry beyond its region")
	}
	c.Reset()
	c.Add(memory.Inline([]byte("inline")))
	if b, ok := c.Next(99); !ok || string(b) != "inline" || cap(b) != 6 {
		t.Errorf("%q", b)
	}
}

// Entries of a list may overlap, and together be longer than an int counts on a 32-bit system.
func TestCursorOfMuch(t *testing.T) {
	m := newTable()
	r := register(t, m, make([]byte, 1<<27), verbs.LocalWrite)
	list := make([]verbs.SGE, 32)
	for i := range list {
		list[i] = sge(r, 0, 1<<27)
	}
	var c memory.Cursor
	if want := min(uint64(32<<27), math.MaxInt); !c.Set(m, pd, list, true) || uint64(c.Len()) != want {
		t.Errorf("%d bytes, want %d", c.Len(), want)
	}
}

func TestAtomics(t *testing.T) {
	m := newTable()
	words := make([]uint64, 2)
	r := register(t, m, unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 16), everything)
	s, ok := m.Remote(pd, qpn, r.Key(), r.Addr()+8, 8, verbs.RemoteAtomic)
	if !ok || !s.Aligned8() {
		t.Fatal("an aligned word is none")
	}
	if old, _ := s.FetchAdd(^uint64(0)); old != 0 || words[1] != ^uint64(0) {
		t.Errorf("%x, %x", old, words[1])
	}
	if old, _ := s.CompareSwap(1, 2); old != ^uint64(0) || words[1] != old {
		t.Error("swapped although it was not equal")
	}
	if s.CompareSwap(^uint64(0), 7); words[1] != 7 || words[0] != 0 {
		t.Error("not swapped")
	}
	s.Store([]byte{9, 9, 9, 9, 9, 9, 9, 9})
	if words[1] != 0x0909090909090909 {
		t.Errorf("%x", words[1])
	}
	odd, _ := m.Remote(pd, qpn, r.Key(), r.Addr()+4, 8, verbs.RemoteAtomic)
	short, _ := m.Remote(pd, qpn, r.Key(), r.Addr(), 4, verbs.RemoteAtomic)
	if odd.Aligned8() || short.Aligned8() {
		t.Error("aligned")
	}
}

// Windows of type 1 belong to the domain, and their key counts up with each binding
// (IBTA 10.6.7.2).
func TestWindowType1(t *testing.T) {
	m := newTable()
	r := register(t, m, make([]byte, 100), everything)
	w := m.AllocWindow(pd, verbs.MWType1)
	first := w.Key()
	if _, ok := m.Remote(pd, qpn, first, r.Addr(), 1, verbs.RemoteRead); ok {
		t.Error("a window that is not bound works")
	}
	if !m.Bind(pd, qpn, w, r, 0, r.Addr()+10, 20, verbs.RemoteRead) {
		t.Fatal("not bound")
	}
	if w.Key() == first || w.Key()>>8 != first>>8 {
		t.Errorf("key %x after %x", w.Key(), first)
	}
	for _, c := range []struct {
		off  int
		n    uint64
		need verbs.Access
		ok   bool
	}{{10, 20, verbs.RemoteRead, true}, {9, 1, verbs.RemoteRead, false}, {10, 21, verbs.RemoteRead, false},
		{10, 1, verbs.RemoteWrite, false}} {
		if _, ok := m.Remote(pd, qpn+1, w.Key(), r.Addr()+uint64(c.off), c.n, c.need); ok != c.ok {
			t.Errorf("%+v: %v", c, ok)
		}
	}
	s, _ := m.Remote(pd, qpn, w.Key(), r.Addr()+10, 5, verbs.RemoteRead)
	// The region is in use.
	if err := m.Deregister(r); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("deregistered under a window: %v", err)
	}
	if err := m.Reregister(r, verbs.ReregAccess, 0, nil, 0); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("changed under a window: %v", err)
	}
	// When the window is bound anew, the old key and spans found by it are void.
	old := w.Key()
	if !m.Bind(pd, qpn, w, r, 0, r.Addr(), 100, verbs.RemoteRead|verbs.ZeroBased) || s.Valid() {
		t.Error("the first binding lives on")
	}
	if _, ok := m.Remote(pd, qpn, old, 0, 1, verbs.RemoteRead); ok {
		t.Error("the old key works")
	}
	if _, ok := m.Remote(pd, qpn, w.Key(), 99, 1, verbs.RemoteRead); !ok {
		t.Error("zero based")
	}
	if !m.Bind(pd, qpn, w, nil, 0, 0, 0, 0) {
		t.Error("not unbound")
	}
	if m.Invalidate(pd, qpn, w.Key()) {
		t.Error("type 1 is not invalidated")
	}
	if err := m.Deregister(r); err != nil {
		t.Error(err)
	}
	m.FreeWindow(w)
	m.FreeWindow(w)
	if m.Len() != 0 || m.Bind(pd, qpn, w, r, 0, 0, 0, 0) {
		t.Error("the window lives on")
	}
}

// Windows of type 2 belong to the queue pair that bound them, take their key from the work
// request, and are bound once until they are invalidated (IBTA 10.6.7.2.3).
func TestWindowType2(t *testing.T) {
	m := newTable()
	r := register(t, m, make([]byte, 100), everything)
	ro := register(t, m, make([]byte, 100), verbs.MWBind)
	no := register(t, m, make([]byte, 100), everything&^verbs.MWBind)
	w := m.AllocWindow(pd, verbs.MWType2)
	key := w.Key()&^0xff | (w.Key()+3)&0xff
	addr := r.Addr()
	for name, ok := range map[string]bool{
		"another domain":       m.Bind(pd+1, qpn, w, r, key, addr, 10, verbs.RemoteRead),
		"no length":            m.Bind(pd, qpn, w, r, key, addr, 0, verbs.RemoteRead),
		"no region":            m.Bind(pd, qpn, w, nil, key, addr, 10, verbs.RemoteRead),
		"beyond the region":    m.Bind(pd, qpn, w, r, key, addr+91, 10, verbs.RemoteRead),
		"not for windows":      m.Bind(pd, qpn, w, no, key, no.Addr(), 10, verbs.RemoteRead),
		"write to what is not": m.Bind(pd, qpn, w, ro, key, ro.Addr(), 10, verbs.RemoteWrite),
		"a right that is none": m.Bind(pd, qpn, w, r, key, addr, 10, verbs.LocalWrite),
		"FLUSH that is not":    m.Bind(pd, qpn, w, r, key, addr, 10, verbs.FlushGlobal),
		"invalidated, unbound": m.Invalidate(pd, qpn, key),
		"a region invalidated": m.Invalidate(pd, qpn, r.Key()),
	} {
		if ok {
			t.Errorf("%s: allowed", name)
		}
	}
	// Of the key that is asked for, only the low 8 bits count.
	if !m.Bind(pd, qpn, w, r, key^0xabcd00, addr, 10, verbs.RemoteWrite) || w.Key() != key {
		t.Fatal("not bound")
	}
	if m.Bind(pd, qpn, w, r, key, addr, 10, verbs.RemoteWrite) {
		t.Error("bound twice")
	}
	if _, ok := m.Remote(pd, qpn, key, addr, 10, verbs.RemoteWrite); !ok {
		t.Error("its own queue pair is refused")
	}
	if _, ok := m.Remote(pd, qpn+1, key, addr, 10, verbs.RemoteWrite); ok {
		t.Error("another queue pair is allowed")
	}
	if m.Invalidate(pd, qpn+1, key) || m.Invalidate(pd+1, qpn, key) || !m.Invalidate(pd, qpn, key) ||
		m.Invalidate(pd, qpn, key) {
		t.Error("invalidated by others, not by its own, or twice")
	}
	m.Close()
	if m.Len() != 0 {
		t.Error("keys are left")
	}
}

// A program may touch its memory while the device is closed: the memory goes with its region.
func TestCloseKeepsMemory(t *testing.T) {
	m := newTable()
	r, err := m.Allocate(pd, 100, everything)
	if err != nil {
		t.Fatal(err)
	}
	buf := r.Bytes()
	m.Close()
	buf[0] = 1
	runtime.GC()
	if len(r.Bytes()) != 100 || r.Bytes()[0] != 1 {
		t.Fatal("the memory went with the table")
	}
	if _, ok := m.Remote(pd, qpn, r.Key(), r.Addr(), 1, verbs.RemoteWrite); ok {
		t.Error("the key is still good")
	}
	for range 2 {
		if err := m.Deregister(r); err != nil || r.Bytes() != nil {
			t.Errorf("deregistered: %v, %d bytes", err, len(r.Bytes()))
		}
	}
}

// Watchers hear of remote writes, to their region only.
func TestWatch(t *testing.T) {
	m := newTable()
	a, b := register(t, m, make([]byte, 8), everything), register(t, m, make([]byte, 8), everything)
	write := func(r *memory.Region) {
		s, _ := m.Remote(pd, qpn, r.Key(), r.Addr(), 1, verbs.RemoteWrite)
		s.Write(m, 0, []byte{1})
	}
	write(a)
	m.Watch(a, 1)
	write(b)
	if m.TakeChanged() {
		t.Error("heard of what nobody waits for")
	}
	write(a)
	if !m.TakeChanged() || m.TakeChanged() {
		t.Error("not heard of once")
	}
	// Also of writes through a window.
	w := m.AllocWindow(pd, verbs.MWType1)
	m.Bind(pd, qpn, w, a, 0, a.Addr(), 8, verbs.RemoteWrite)
	s, _ := m.Remote(pd, qpn, w.Key(), a.Addr(), 1, verbs.RemoteWrite)
	if s.Write(m, 0, []byte{1}); !m.TakeChanged() {
		t.Error("not heard of a write through a window")
	}
	m.Watch(a, -1)
	write(a)
	if m.TakeChanged() {
		t.Error("heard of although nobody waits any more")
	}
}
