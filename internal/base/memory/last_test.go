// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// The region found last is found again, within its bounds and for the same access, until the key
// stands for another one.
func TestRemoteAfter(t *testing.T) {
	m := newTable()
	var last memory.LookupCache
	find := func(key verbs.Key, addr, n uint64, need verbs.Access) bool {
		t.Helper()
		s, ok := m.RemoteCached(&last, pd, qpn, key, addr, n, need)
		if _, want := m.Remote(pd, qpn, key, addr, n, need); ok != want || ok && s.Len() != int(n) {
			t.Errorf("%d bytes: %v, %d; Remote says %v", n, ok, s.Len(), want)
		}
		return ok
	}
	r := register(t, m, make([]byte, 100), everything&^verbs.RemoteRead)
	addr, old := r.Addr(), r.Key()
	for range 2 {
		if !find(old, addr+20, 80, verbs.RemoteWrite) || find(old, addr+20, 81, verbs.RemoteWrite) ||
			find(old, addr-1, 1, verbs.RemoteWrite) ||
			find(old, addr, 8, verbs.RemoteRead) || find(old+1, addr, 8, verbs.RemoteWrite) {
			t.Fatal("wrong bounds or rights")
		}
	}
	if err := m.Reregister(r, verbs.ReregAccess, pd, nil, verbs.LocalWrite); err != nil {
		t.Fatal(err)
	}
	if find(old, addr, 8, verbs.RemoteWrite) {
		t.Error("the right was taken away")
	}
	if err := m.Reregister(r, verbs.ReregAccess, pd, nil, everything); err != nil {
		t.Fatal(err)
	}
	w := m.AllocWindow(pd, verbs.MWType2)
	key := w.Key()
	for range 2 {
		if !m.Bind(pd, qpn, w, r, key, addr, 10, verbs.RemoteWrite) || !find(key, addr, 10, verbs.RemoteWrite) ||
			find(key, addr, 11, verbs.RemoteWrite) {
			t.Error("not bound")
		}
		if !m.Invalidate(pd, qpn, key) || find(key, addr, 10, verbs.RemoteWrite) {
			t.Error("not invalidated")
		}
	}
	if !find(old, addr, 8, verbs.RemoteWrite) || m.Deregister(r) != nil || find(old, addr, 8, verbs.RemoteWrite) {
		t.Error("not deregistered")
	}
}

// The region that Local found last is found again, until the key stands for another one; and to be written to
// only if the look-up before was for writing, or the region allows it.
func TestLocalAfter(t *testing.T) {
	m := newTable()
	var last memory.LookupCache
	find := func(r *memory.Region, off, n int, write bool) bool {
		t.Helper()
		sge := verbs.SGE{Addr: r.Addr() + uint64(off), Length: uint32(n), LKey: r.Key()}
		s, ok := m.LocalCached(&last, pd, &sge, write)
		if _, want := m.Local(pd, &sge, write); ok != want || ok && s.Len() != n {
			t.Errorf("%d bytes: %v, %d; Local says %v", n, ok, s.Len(), want)
		}
		return ok
	}
	readOnly, r := register(t, m, make([]byte, 100), verbs.RemoteRead),
		register(t, m, make([]byte, 100), verbs.LocalWrite)
	for range 2 {
		if !find(readOnly, 20, 80, false) || find(readOnly, 20, 80, true) || find(readOnly, 20, 81, false) ||
			!find(r, 0, 100, true) || !find(r, 1, 99, false) {
			t.Error("wrong bounds or rights")
		}
	}
	if m.Reregister(r, verbs.ReregAccess, pd, nil, verbs.RemoteRead) != nil || find(r, 0, 8, true) ||
		!find(r, 0, 8, false) {
		t.Error("the right was taken away")
	}
	if m.Deregister(r) != nil || find(r, 0, 8, false) {
		t.Error("not deregistered")
	}
}
