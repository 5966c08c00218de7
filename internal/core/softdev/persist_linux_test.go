// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// FLUSH to persistence is for memory that can keep it, and a peer that flushes it hears when it
// is kept.
func TestFlushPersistent(t *testing.T) {
	a, b := newPair(t)
	const access = verbs.LocalWrite | verbs.RemoteWrite | verbs.FlushPersistent
	if _, err := b.pd.RegMR(make([]byte, 100), access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap: %v", err)
	}
	if _, err := b.pd.RegMR(make([]byte, 100), access, verbs.External(0)); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap, external: %v", err)
	}
	if _, err := b.pd.AllocMR(100, access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("memory of the device: %v", err)
	}
	if err := b.mr.Rereg(verbs.ReregAccess, nil, nil, access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap, later: %v", err)
	}

	path := filepath.Join(t.TempDir(), "file")
	b.ok(os.WriteFile(path, make([]byte, 8192), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	b.ok(err)
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.ok(err)
	defer unix.Munmap(mem)
	if err := memory.Persistable(mem); err != nil {
		t.Skip(err)
	}
	mr, err := b.pd.RegMR(mem, access, verbs.External(0x1000))
	b.ok(err)
	for i, scope := range []verbs.FlushScope{verbs.FlushRange, verbs.FlushRegion} {
		wrs := []verbs.SendWR{
			{Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 100)}, Remote: mr.Remote()},
			{Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: 100, FlushLevel: verbs.FlushToPersistent, FlushScope: scope},
			// What follows a FLUSH waits for it.
			{ID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Remote: mr.Remote().At(4096)},
		}
		_, err := a.qp.PostSendList(wrs)
		a.ok(err)
		var wc [1]verbs.WC
		if _, err := a.cq.Wait(t.Context(), wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess || wc[0].ID != uint64(i) {
			t.Fatal(wc[0].ID, wc[0].Status, err)
		}
	}
	// Who waits in memory for what follows a FLUSH is woken when it is carried out.
	seen := make(chan error, 1)
	go func() {
		seen <- b.mr.WaitFor(t.Context(), func(p []byte) bool { return p[0] == 1 })
	}()
	b.watched()
	_, err = a.qp.PostSendList([]verbs.SendWR{
		{Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: 100, FlushLevel: verbs.FlushToPersistent},
		{Op: verbs.OpWrite, Inline: []byte{1}, Remote: b.mr.Remote()},
	})
	a.ok(err)
	select {
	case err := <-seen:
		b.ok(err)
	case <-time.After(30 * time.Second):
		t.Fatal("a WRITE behind a FLUSH wakes nobody")
	}

	b.ok(mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite))
	a.ok(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: 8, FlushLevel: verbs.FlushToPersistent}))
	var wc [1]verbs.WC
	if _, err := a.cq.Wait(t.Context(), wc[:]); err != nil || wc[0].Status != verbs.StatusRemoteAccessError {
		t.Error(wc[0].Status, err)
	}
	b.ok(mr.Close())
}

// watched waits until somebody sleeps until memory is written to.
func (s *side) watched() {
	s.t.Helper()
	s.eventually(func() bool {
		s.soft.Lane.Mu.Lock()
		defer s.soft.Lane.Mu.Unlock()
		return s.soft.watch.ch != nil
	}, "somebody watches memory")
}
