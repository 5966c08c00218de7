// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var registrationTests = []test{
	{name: "MR/Modes", run: testModes},
	{name: "MR/ModesRefused", run: testModesRefused},
	{name: "MR/Weak", run: testWeak},
	{name: "MR/WeakPosted", run: testWeakPosted},
	{name: "MR/Prefetch", run: testPrefetch},
	{name: "MR/SharedFile", run: testSharedFile},
}

// lacks reports whether a device, or the limits of this process, do not permit a mode; another error
// ends the test.
func (t *T) lacks(err error) bool {
	t.Helper()
	if errors.Is(err, verbs.ErrNotSupported) || errors.Is(err, verbs.ErrPinLimit) {
		t.Log(err)
		return true
	}
	t.ok(err)
	return false
}

// testModes registers memory in each way there is, works on it, moves the region to other memory, and
// works on that.
func testModes(t *T) {
	const n = 1 << 16
	a, b := t.pair(setup{})
	for i, c := range []struct {
		opt    verbs.RegOption
		waits  bool
		always bool
	}{
		{opt: verbs.Pinned(), waits: true}, {opt: verbs.Pipelined(4096), waits: true},
		{opt: verbs.Pipelined(0), waits: true},
		{opt: verbs.Deferred()}, {opt: verbs.OnDemandPaging(), always: b.dev.Query().Caps&verbs.CapOnDemand != 0},
	} {
		mr, err := b.pd.RegMR(make([]byte, n), everything, c.opt)
		if !c.always && t.lacks(err) {
			continue
		}
		t.ok(err)
		for j := range 2 {
			a.fill(0, n, 2*i+j)
			a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: mr.Remote()})
			a.fill(0, n, 1000)
			a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, n), Remote: mr.Remote()})
			a.holds(0, n, 2*i+j)
			if err := mr.WaitPinned(t.within()); c.waits {
				t.ok(err)
			} else if err == nil {
				t.Error("a region that is not pinned by itself can be waited for")
			}
			t.ok(mr.Rereg(verbs.ReregTranslation, nil, make([]byte, n+j), 0))
		}
		t.ok(mr.Close())
		t.ok(mr.Close())
	}
}

func testModesRefused(t *T) {
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	buf := make([]byte, 4096)
	for _, c := range []struct {
		access verbs.Access
		opts   []verbs.RegOption
		words  string
	}{
		{0, []verbs.RegOption{verbs.Pinned(), verbs.Deferred()}, "pinned and deferred exclude each other"},
		{0, []verbs.RegOption{verbs.Pipelined(0), verbs.OnDemandPaging()},
			"pipelined and on demand exclude each other"},
		{verbs.OnDemand, []verbs.RegOption{verbs.Pinned()}, "OnDemand"},
		{0, []verbs.RegOption{verbs.Pipelined(-1)}, "-1 bytes"},
		{0, []verbs.RegOption{verbs.Weak(), verbs.Pinned()}, "cannot be pinned"},
		{verbs.MWBind, []verbs.RegOption{verbs.Weak()}, "MWBind"},
		{1 << 30, []verbs.RegOption{verbs.Pinned()}, "access flags"},
	} {
		_, err := pd.RegMR(buf, c.access, c.opts...)
		t.fails(err, verbs.ErrInvalid, c.words)
	}
	t.ok(pd.Close()) // nothing is left of refused registrations
}

// testWeak drops the memory of a region, which then is unreachable.
func testWeak(t *T) {
	a, b := t.pair(setup{})
	const n = 1 << 16
	buf := make([]byte, n)
	mr, err := b.pd.RegMR(buf, everything&^verbs.MWBind, verbs.Weak())
	if t.lacks(err) {
		t.Skip(err)
	}
	runtime.GC()
	a.fill(0, n, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: mr.Remote()})
	a.fill(0, n, 2)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, n), Remote: mr.Remote()})
	a.holds(0, n, 1)
	if mr.Len() != n || &mr.Bytes()[0] != &buf[0] {
		t.Fatalf("the region has %d bytes", mr.Len())
	}
	t.fails(mr.Rereg(verbs.ReregTranslation, nil, buf, 0), verbs.ErrInvalid)
	remote := mr.Remote()
	runtime.KeepAlive(buf)
	buf = nil
	// A queue pair may keep the memory of its last requests, to answer them again.
	t.ok(a.qp.Close())
	t.ok(b.qp.Close())
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	t.collected(mr)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: remote})
	a.turnedDown(verbs.StatusRemoteAccessError)
	t.ok(mr.Close())
}

// testWeakPosted lets go of memory that is to be sent: the request fails.
func testWeakPosted(t *T) {
	a, b := t.pair(setup{})
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	mr, err := a.pd.RegMR(make([]byte, 1<<16), everything&^verbs.MWBind, verbs.Weak())
	if t.lacks(err) {
		t.Skip(err)
	}
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{mr.SGE(0, 1<<16)}, Remote: b.at(0)})
	t.collected(mr)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	a.sent(verbs.StatusLocalProtectionError)
	t.ok(mr.Close())
}

// collected waits until the memory of a weak region is gone.
func (t *T) collected(mr *verbs.MR) {
	t.Helper()
	for end := time.Now().Add(patience); mr.Bytes() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the region keeps its memory alive")
		}
	}
}

func testPrefetch(t *T) {
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	mr := value(pd.RegMR(make([]byte, 1<<16), verbs.LocalWrite, verbs.OnDemandPaging()))(t)
	for _, c := range []struct{ off, n int }{{-1, 1}, {0, -1}, {0, 1<<16 + 1}, {1, 1 << 16}, {1<<16 + 1, 0}} {
		t.fails(mr.Prefetch(c.off, c.n, false), verbs.ErrInvalid)
	}
	for _, write := range []bool{false, true} {
		for _, c := range []struct{ off, n int }{{0, 1 << 16}, {5000, 1}, {1 << 16, 0}} {
			if err := mr.Prefetch(c.off, c.n, write); t.lacks(err) {
				t.Skip(err)
			}
		}
	}
	source := value(pd.RegMR(make([]byte, 10), 0))(t)
	t.ok(source.Prefetch(0, 10, false))
	t.fails(source.Prefetch(0, 10, true), verbs.ErrPermission)
	t.ok(source.Close())
	t.fails(source.Prefetch(0, 10, false), verbs.ErrInvalid)
	t.ok(mr.Close())
}

// testSharedFile registers a file twice: data that is written through one region is in the other, and the file.
func testSharedFile(t *T) {
	const n, off = 3 << 16, 1 << 16
	a, b := t.pair(setup{})
	path := filepath.Join(t.TempDir(), "table")
	f := value(os.Create(path))(t)
	t.ok(f.Truncate(off + n))
	one, err := b.pd.RegShared(f.Fd(), off, n, everything)
	if errors.Is(err, verbs.ErrNotSupported) {
		t.Skip(err)
	}
	t.ok(err)
	other := value(b.pd.RegShared(f.Fd(), 0, off+n, verbs.RemoteRead))(t)
	t.ok(f.Close())
	a.fill(0, 50_000, 4)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 50_000), Remote: one.Remote().At(100)})
	want := make([]byte, 50_000)
	pattern(want, 4)
	t.same(one, 100, want)
	t.same(other, off+100, want)
	a.fill(0, 50_000, 0)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 50_000), Remote: other.Remote().At(off + 100)})
	a.same(0, want)
	t.ok(one.Close())
	t.ok(one.Close())
	t.ok(other.Close())
	file := value(os.ReadFile(path))(t)
	if string(file[off+100:][:len(want)]) != string(want) {
		t.Error("the file has something else")
	}
	_, err = b.pd.RegShared(f.Fd(), 0, n, everything)
	if err == nil {
		t.Error("a descriptor that is closed is registered")
	}
	for _, c := range [][2]int{{-1, 1}, {0, 0}, {0, -1}} {
		_, err = b.pd.RegShared(0, int64(c[0]), c[1], 0)
		t.fails(err, verbs.ErrInvalid)
	}
}
