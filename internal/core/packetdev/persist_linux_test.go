// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
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
	if _, err := b.PD.RegMR(make([]byte, 100), access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap: %v", err)
	}
	if _, err := b.PD.RegMR(make([]byte, 100), access, verbs.External(0)); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap, external: %v", err)
	}
	if _, err := b.PD.AllocMR(100, access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("memory of the device: %v", err)
	}
	if err := b.MR.Rereg(verbs.ReregAccess, nil, nil, access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap, later: %v", err)
	}

	path := filepath.Join(t.TempDir(), "file")
	b.OK(os.WriteFile(path, make([]byte, 8192), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	b.OK(err)
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	b.OK(err)
	defer unix.Munmap(mem)
	if err := memory.Persistable(mem); err != nil {
		t.Skip(err)
	}
	mr, err := b.PD.RegMR(mem, access, verbs.External(0x1000))
	b.OK(err)
	for i, scope := range []verbs.FlushScope{verbs.FlushRange, verbs.FlushRegion} {
		wrs := []verbs.SendWR{
			{Op: verbs.OpWrite, SGL: []verbs.SGE{a.MR.SGE(0, 100)}, Remote: mr.Remote()},
			{Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: 100, FlushLevel: verbs.FlushToPersistent,
				FlushScope: scope},
			// Requests behind a FLUSH wait for it.
			{ID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.MR.SGE(0, 8)},
				Remote: mr.Remote().At(4096)},
		}
		_, err := a.QP.PostSendList(wrs)
		a.OK(err)
		var wc [1]verbs.WC
		if _, err := a.CQ.Wait(t.Context(), wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess ||
			wc[0].ID != uint64(i) {
			t.Fatal(wc[0].ID, wc[0].Status, err)
		}
	}
	// A goroutine that waits in memory for a request behind a FLUSH is woken when that is carried out.
	seen := make(chan error, 1)
	var looked atomic.Int32
	go func() {
		seen <- b.MR.WaitFor(t.Context(), func(p []byte) bool { looked.Add(1); return p[0] == 1 })
	}()
	b.Eventually(func() bool {
		before := looked.Load()
		time.Sleep(50 * time.Millisecond)
		return looked.Load() == before && before > 0
	}, "it sleeps")
	_, err = a.QP.PostSendList([]verbs.SendWR{
		{Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: 100, FlushLevel: verbs.FlushToPersistent},
		{Op: verbs.OpWrite, Inline: []byte{1}, Remote: b.MR.Remote()},
	})
	a.OK(err)
	select {
	case err := <-seen:
		b.OK(err)
	case <-time.After(30 * time.Second):
		t.Fatal("a WRITE behind a FLUSH wakes nobody")
	}

	b.OK(mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite))
	a.OK(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: 8,
		FlushLevel: verbs.FlushToPersistent}))
	var wc [1]verbs.WC
	if _, err := a.CQ.Wait(t.Context(), wc[:]); err != nil || wc[0].Status != verbs.StatusRemoteAccessError {
		t.Error(wc[0].Status, err)
	}
	b.OK(mr.Close())
}
