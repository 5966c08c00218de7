// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var memoryTests = []test{
	{name: "MR/AnySlice", run: testAnySlice},
	{name: "MR/Allocated", run: func(t *T) { testAllocated(t, 0) }},
	{name: "MR/HugePages", run: func(t *T) { testAllocated(t, verbs.HugePages) }},
	{name: "MR/Empty", run: testRegEmpty},
	{name: "MR/Refused", run: testRegRefused},
	{name: "MR/ZeroBased", run: testZeroBased},
	{name: "MR/OnDemand", run: testOnDemand},
	{name: "MR/Keys", run: testKeys},
	{name: "MR/Overlap", run: testOverlap},
	{name: "MR/ReregMemory", run: testReregMemory},
	{name: "MR/ReregAccess", run: testReregAccess},
	{name: "MR/ReregDomain", run: testReregDomain},
	{name: "MR/ReregAll", run: testReregAll},
	{name: "MR/ReregRefused", run: testReregRefused},
	{name: "MR/DeregPosted", run: testDeregPosted},
	{name: "MR/DeregReceive", run: testDeregReceive},
	{name: "MR/DeregUnderWrite", run: func(t *T) { testDeregUnder(t, verbs.OpWrite) }},
	{name: "MR/DeregUnderRead", run: func(t *T) { testDeregUnder(t, verbs.OpRead) }},
}

// testAnySlice registers memory of all lengths and places, the middle of a slice included.
func testAnySlice(t *T) {
	a, b := t.pair(setup{})
	whole := make([]byte, 10000)
	for i, c := range []struct{ off, n int }{{0, 1}, {1, 1}, {3, 7}, {4095, 2}, {5, 9995}, {0, 10000}} {
		part := whole[c.off : c.off+c.n]
		mr := value(b.pd.RegMR(part, everything))(t)
		if mr.Len() != c.n || mr.Addr() != uint64(uintptr(unsafe.Pointer(&part[0]))) || &mr.Bytes()[0] != &part[0] {
			t.Fatalf("region of %d bytes at %#x", mr.Len(), mr.Addr())
		}
		a.fill(0, c.n, i)
		a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, c.n), Remote: mr.Remote()})
		a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(20000, c.n), Remote: mr.Remote()})
		a.holds(20000, c.n, i)
		t.ok(mr.Close())
	}
}

func testAllocated(t *T, access verbs.Access) {
	a, b := t.pair(setup{size: 3 << 20})
	const n = 3<<20 - 100
	mr := value(b.pd.AllocMR(n, everything|access))(t)
	if mr.Len() != n || mr.Addr()%uint64(os.Getpagesize()) != 0 {
		t.Fatalf("region of %d bytes at %#x", mr.Len(), mr.Addr())
	}
	mr.Do(func(p []byte) {
		for i, v := range p {
			if v != 0 {
				t.Errorf("byte %d of new memory is %#x", i, v)
				return
			}
		}
	})
	a.fill(0, n, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: mr.Remote()})
	a.fill(0, n, 2)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, n), Remote: mr.Remote()})
	a.holds(0, n, 1)
	t.ok(mr.Close())
	t.ok(mr.Close())
}

// testRegEmpty holds that a region may have no bytes, and then allows none.
func testRegEmpty(t *T) {
	a, b := t.pair(setup{})
	for _, buf := range [][]byte{nil, {}, b.mr.Bytes()[8:8]} {
		mr := value(b.pd.RegMR(buf, everything))(t)
		if mr.Len() != 0 || mr.LKey() == 0 {
			t.Errorf("a region of %d bytes with key %#x", mr.Len(), mr.LKey())
		}
		a.do(verbs.SendWR{Op: verbs.OpWrite, Remote: mr.Remote()})
		b.do(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{mr.SGE(0, 0)}, Remote: a.mr.Remote()})
		t.ok(mr.Rereg(verbs.ReregTranslation, nil, make([]byte, 8), 0))
		a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: mr.Remote()})
		t.ok(mr.Rereg(verbs.ReregTranslation, nil, buf, 0))
		t.ok(mr.Close())
		t.fails(mr.Rereg(verbs.ReregTranslation, nil, make([]byte, 8), 0), verbs.ErrClosed)
	}
	mr := value(b.pd.RegMR(nil, everything))(t)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 1), Remote: mr.Remote()})
	a.sent(verbs.StatusRemoteAccessError)
}

func testRegRefused(t *T) {
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	for _, n := range []int{0, -1} {
		_, err := pd.AllocMR(n, verbs.LocalWrite)
		t.fails(err, verbs.ErrInvalid)
	}
	for _, a := range []verbs.Access{verbs.RemoteWrite, verbs.RemoteAtomic, verbs.RemoteRead | verbs.RemoteWrite,
		1 << 30} {
		_, err := pd.RegMR(make([]byte, 8), a)
		t.fails(err, verbs.ErrInvalid)
		_, err = pd.AllocMR(8, a)
		t.fails(err, verbs.ErrInvalid)
	}
	t.ok(pd.Close())
	_, err := pd.RegMR(make([]byte, 8), 0)
	t.fails(err, verbs.ErrClosed)
}

func testZeroBased(t *T) {
	a, b := t.pair(setup{})
	mr := value(b.pd.RegMR(make([]byte, 100), everything|verbs.ZeroBased))(t)
	if mr.Addr() != 0 {
		t.Fatalf("zero-based region at %#x", mr.Addr())
	}
	a.fill(0, 10, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 10), Remote: verbs.Remote{Addr: 90, Key: mr.RKey()}})
	want := make([]byte, 10)
	pattern(want, 1)
	t.same(mr, 90, want) // before it goes back
	b.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{mr.SGE(90, 10)}, Remote: a.at(50)})
	b.sent(verbs.StatusSuccess)
	a.holds(50, 10, 1)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 10), Remote: verbs.Remote{Addr: 91, Key: mr.RKey()}})
	a.turnedDown(verbs.StatusRemoteAccessError)
}

// testOnDemand registers with hints: they change nothing that a program can see.
func testOnDemand(t *T) {
	a, b := t.pair(setup{access: everything | verbs.OnDemand | verbs.RelaxedOrdering})
	a.fill(0, 1<<16, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 1<<16), Remote: b.at(0)})
	b.holds(0, 1<<16, 1)
}

// testKeys holds that keys differ, do not follow a pattern, and do not come back at once.
func testKeys(t *T) {
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	buf := make([]byte, 64)
	seen := map[verbs.Key]bool{}
	steps := map[verbs.Key]bool{}
	var last verbs.Key
	const n = 500
	for range n {
		mr := value(pd.RegMR(buf, verbs.LocalWrite))(t)
		k := mr.RKey()
		if seen[k>>8] {
			t.Fatalf("key %#x came back", k)
		}
		seen[k>>8] = true
		steps[k-last] = true
		last = k
		t.ok(mr.Close())
	}
	if len(steps) < n*9/10 {
		t.Errorf("%d keys follow each other by only %d different steps", n, len(steps))
	}
}

func testOverlap(t *T) {
	a, b := t.pair(setup{})
	ro := value(b.pd.RegMR(b.mr.Bytes(), verbs.RemoteRead))(t)
	a.fill(0, 64, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 64), Remote: b.at(0)})
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(100, 64), Remote: ro.Remote()})
	a.holds(100, 64, 1)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 64), Remote: ro.Remote()})
	a.turnedDown(verbs.StatusRemoteAccessError)
}

func testReregMemory(t *T) {
	a, b := t.pair(setup{})
	old := b.at(0)
	next := make([]byte, 4096)
	t.ok(b.mr.Rereg(verbs.ReregTranslation, nil, next, 0))
	if b.mr.Len() != len(next) || &b.mr.Bytes()[0] != &next[0] {
		t.Fatalf("region of %d bytes after Rereg", b.mr.Len())
	}
	a.fill(0, 4096, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 4096), Remote: b.at(0)})
	b.holds(0, 4096, 1)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: old})
	a.turnedDown(verbs.StatusRemoteAccessError)
}

func testReregAccess(t *T) {
	a, b := t.pair(setup{access: verbs.LocalWrite | verbs.RemoteRead})
	t.ok(b.mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite|verbs.RemoteWrite))
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: b.at(0)})
	a.sent(verbs.StatusRemoteAccessError)
}

func testReregDomain(t *T) {
	a, b := t.pair(setup{})
	old, other := b.pd, value(b.dev.AllocPD())(t)
	t.ok(b.mr.Rereg(verbs.ReregPD, other, nil, 0))
	t.fails(other.Close(), verbs.ErrBusy)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	a.turnedDown(verbs.StatusRemoteAccessError)
	t.ok(b.qp.Close())
	t.ok(old.Close()) // the region does not depend on it any more
	b.pd = other
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
}

func testReregAll(t *T) {
	a, b := t.pair(setup{})
	other := value(b.dev.AllocPD())(t)
	t.ok(b.mr.Rereg(verbs.ReregTranslation|verbs.ReregPD|verbs.ReregAccess, other, make([]byte, 100),
		everything|verbs.ZeroBased))
	if b.mr.Addr() != 0 || b.mr.Len() != 100 {
		t.Fatalf("region of %d bytes at %#x", b.mr.Len(), b.mr.Addr())
	}
	b.pd = other
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: 92, Key: b.mr.RKey()}})
}

func testReregRefused(t *T) {
	dev, foreign := t.devices()
	e := t.newEnd(dev, setup{})
	key := e.mr.RKey()
	for _, f := range []verbs.ReregFlags{0, 8, 0xff} {
		t.fails(e.mr.Rereg(f, e.pd, make([]byte, 8), 0), verbs.ErrInvalid)
	}
	t.fails(e.mr.Rereg(verbs.ReregPD, nil, nil, 0), verbs.ErrInvalid)
	t.fails(e.mr.Rereg(verbs.ReregAccess, nil, nil, verbs.RemoteWrite), verbs.ErrInvalid)
	if foreign != dev {
		t.fails(e.mr.Rereg(verbs.ReregPD, value(foreign.AllocPD())(t), nil, 0), verbs.ErrInvalid)
	}
	if e.mr.RKey() != key {
		t.Error("a refused Rereg changed the key")
	}
	t.ok(e.mr.Close())
	t.fails(e.mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite), verbs.ErrClosed)
	t.fails(e.mr.Rereg(verbs.ReregPD, e.pd, nil, 0), verbs.ErrClosed)
}

// testDeregPosted deregisters memory that a posted work request names: the request fails,
// and nothing else happens.
func testDeregPosted(t *T) {
	a, b := t.pair(setup{})
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	a.post(verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: a.sgl(0, 100), Remote: b.at(0)})
	t.ok(a.mr.Close())
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	a.sent(verbs.StatusLocalProtectionError)
	a.state(verbs.StateError)
}

func testDeregReceive(t *T) {
	a, b := t.pair(setup{})
	b.recv(1, 0, 100)
	t.ok(b.mr.Close())
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 10)})
	b.received(verbs.StatusLocalProtectionError)
	a.turnedDown(verbs.StatusRemoteOperationError)
}

// testDeregUnder deregisters memory that the device allocated while a peer works on it:
// a later access would crash.
func testDeregUnder(t *T, op verbs.SendOp) {
	const n = 4 << 20
	a, b := t.pair(setup{size: n})
	mr := value(b.pd.AllocMR(n, everything))(t)
	for range 8 {
		a.post(verbs.SendWR{Op: op, SGL: a.sgl(0, n), Remote: mr.Remote()})
	}
	a.sent(verbs.StatusSuccess)
	t.ok(mr.Close())
	a.post(verbs.SendWR{Op: op, SGL: a.sgl(0, n), Remote: mr.Remote()}) // earlier ones may be through
	if op == verbs.OpWrite && t.late() {
		a.state(verbs.StateError)
		return
	}
	// A Terminate of iWARP names the READ that was refused. Unanswered READs before it are flushed.
	stream := a.dev.Query().Transport == verbs.TransportIWARP
	for wc := t.next(a.scq); wc.Status != verbs.StatusRemoteAccessError &&
		wc.Status != verbs.StatusRemoteOperationError; wc = t.next(a.scq) {
		if wc.Status == verbs.StatusRetryExceeded && b.answersLost() {
			return
		}
		if wc.Status != verbs.StatusSuccess && !(stream && wc.Status == verbs.StatusWRFlushError) {
			t.Fatalf("completed with %v, the peer has %+v", wc.Status, value(b.qp.Stats())(t))
		}
	}
}

// answersLost reports whether the network has lost answers of the end that it does not repeat: to a READ whose memory
// has gone meanwhile, which came again (IBTA 9.7.5.1.4), or its NAK, after which it takes nothing more (IBTA 9.9.3).
func (e *end) answersLost() bool {
	s := value(e.qp.Stats())(e.t)
	return s.Duplicates > 0 || s.State == verbs.StateError
}
