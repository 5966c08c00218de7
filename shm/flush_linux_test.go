// SPDX-License-Identifier: Apache-2.0

package shm_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestFlushPersistent flushes data that it has written to a file of the target's.
func TestFlushPersistent(t *testing.T) {
	a, b := connect(t, 8192)
	const access = verbs.LocalWrite | verbs.RemoteWrite | verbs.FlushPersistent
	if _, err := b.pd.RegMR(make([]byte, 100), access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("the heap: %v", err)
	}
	if _, err := b.pd.AllocMR(100, access); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("memory of the device: %v", err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	f := must(os.OpenFile(path, os.O_RDWR, 0))
	defer f.Close()
	mr, err := b.pd.RegShared(f.Fd(), 0, 8192, access)
	if errors.Is(err, verbs.ErrNotSupported) {
		t.Skip(err) // the file is in memory
	}
	if err != nil {
		t.Fatal(err)
	}
	mem := a.mr.Bytes()
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	const n = 5000
	wrs := []verbs.SendWR{
		{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, n)}, Remote: mr.Remote()},
		{ID: 2, Op: verbs.OpFlush, Remote: mr.Remote(), FlushLen: n, FlushLevel: verbs.FlushToPersistent},
		{ID: 3, Op: verbs.OpAtomicWrite, Inline: []byte("all safe"), Remote: mr.Remote().At(8000)},
		{ID: 4, Op: verbs.OpFlush, Remote: mr.Remote(), FlushScope: verbs.FlushRegion,
			FlushLevel: verbs.FlushToPersistent},
	}
	for i := range wrs {
		wrs[i].Flags = verbs.Signaled
	}
	must(a.qp.PostSendList(wrs))
	for i := range wrs {
		if a.done(t); a.wc[0].ID != wrs[i].ID {
			t.Errorf("completion of %d, want %d", a.wc[0].ID, wrs[i].ID)
		}
	}
	if got := must(os.ReadFile(path)); !bytes.Equal(got[:n], mem[:n]) || string(got[8000:8008]) != "all safe" {
		t.Error("the file has not what was written")
	}
	if err := mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		t.Fatal(err)
	}
	must(0, a.qp.PostSend(&wrs[1]))
	must(a.cq.Wait(t.Context(), a.wc[:]))
	if a.wc[0].Status != verbs.StatusRemoteAccessError {
		t.Errorf("a FLUSH that the region does not allow any more: %v", a.wc[0].Status)
	}
}
