// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

var shapeTests = []test{
	{name: "Shape/ScatterGather", run: testScatterGather},
	{name: "Shape/ReadScatter", run: testReadScatter},
	{name: "Shape/TooManySGEs", run: testTooManySGEs},
	{name: "Shape/List", run: testList},
	{name: "Shape/AllOrNone", run: testAllOrNone},
	{name: "Shape/QueueFull", run: testQueueFull, needs: []Ability{Numbered}},
	{name: "Shape/Unsignaled", run: testUnsignaled},
	{name: "Shape/SignalAll", run: testSignalAll},
	{name: "Shape/Inline", run: testInline},
	{name: "Shape/Fence", run: testFence},
	{name: "Shape/GiB", run: testGiB},
}

// pieces cuts n bytes of the end's region into entries of uneven lengths, some of them
// empty.
func (e *end) pieces(off, n, count int) (sgl []verbs.SGE) {
	for i := range count - 1 {
		part := min(n, i%5*(i+37))
		sgl = append(sgl, e.mr.SGE(off, part))
		off, n = off+part, n-part
	}
	return append(sgl, e.mr.SGE(off, n))
}

func testScatterGather(t *T) {
	count := min(32, func() int { d, _ := t.devices(); return d.Query().MaxSGE }())
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendSGE: count, MaxRecvSGE: count}}})
	for i, n := range []int{1, 1000, 4096, 30000} {
		for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpWrite} {
			a.fill(11, n, i)
			if op == verbs.OpSend {
				t.ok(b.qp.PostRecv(&verbs.RecvWR{SGL: b.pieces(5, n, 17)}))
			}
			a.do(verbs.SendWR{Op: op, SGL: a.pieces(11, n, count), Remote: b.at(5)})
			if op == verbs.OpSend {
				b.received(verbs.StatusSuccess)
			}
			b.holds(5, n, i)
		}
	}
}

func testReadScatter(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendSGE: 16}}})
	b.fill(0, 30000, 1)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.pieces(9, 30000, 16), Remote: b.at(0)})
	a.holds(9, 30000, 1)
}

func testTooManySGEs(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendSGE: 2, MaxRecvSGE: 2}}})
	lim := a.qp.Query().Cap
	t.fails(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: make([]verbs.SGE, lim.MaxSendSGE+1)}), verbs.ErrInvalid)
	t.fails(b.qp.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, lim.MaxRecvSGE+1)}), verbs.ErrInvalid)
}

func testList(t *T) {
	a, b := t.pair(setup{})
	recvs := make([]verbs.RecvWR, 10)
	for i := range recvs {
		recvs[i] = verbs.RecvWR{ID: uint64(i), SGL: b.sgl(i*100, 100)}
	}
	if n, err := b.qp.PostRecvList(recvs); n != 10 || err != nil {
		t.Fatalf("posted %d receives: %v", n, err)
	}
	sends := make([]verbs.SendWR, 10)
	for i := range sends {
		a.fill(i*100, 100, i)
		sends[i] = verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sgl(i*100, 100)}
	}
	sends[6].Op = 0 // cannot be posted: the sends before it are, it and the rest are not
	n, err := a.qp.PostSendList(sends)
	t.fails(err, verbs.ErrInvalid)
	if n != 6 {
		t.Fatalf("posted %d, want 6", n)
	}
	for i := range 6 {
		if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(i) {
			t.Fatalf("completion of %d, want %d", wc.ID, i)
		}
		b.received(verbs.StatusSuccess)
		b.holds(i*100, 100, i)
	}
	t.none(a.scq)
	if n, err := a.qp.PostSendList(nil); n != 0 || err != nil {
		t.Errorf("an empty list: %d, %v", n, err)
	}
}

// testAllOrNone holds that a list that is posted as a whole leaves nothing behind if it is
// refused, neither a place in the queue nor a packet, and goes after earlier posts.
func testAllOrNone(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 16}}})
	lim := a.qp.Query().Cap
	list := func(n, size int) (sends []verbs.SendWR) {
		for i := range n {
			sends = append(sends, verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: a.sgl(0, size)})
		}
		return sends
	}
	a.fill(0, 5000, 1)
	for round := range 3 {
		bad := list(lim.MaxSendWR, 5000)
		bad[len(bad)-1].Op = 0
		t.fails(a.qp.PostSendAll(bad), verbs.ErrInvalid)
		t.fails(a.qp.PostSendAll(list(lim.MaxSendWR+1, 5000)), verbs.ErrQueueFull)
		good := list(lim.MaxSendWR, round+1)
		for range good {
			b.recv(0, 10000, 5000)
		}
		t.ok(a.qp.PostSendAll(good))
		for i := range good {
			if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(i) {
				t.Fatalf("completion of %d, want %d", wc.ID, i)
			}
			if wc := b.received(verbs.StatusSuccess); wc.ByteLen != uint32(round+1) {
				t.Fatalf("received %d bytes, want %d", wc.ByteLen, round+1)
			}
		}
	}
	t.none(a.scq)
	t.ok(a.qp.PostSendAll(nil))
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	bad := list(2, 1)
	bad[1].Op = 0
	t.fails(a.qp.PostSendAll(bad), verbs.ErrInvalid)
	t.none(a.scq)
}

func testQueueFull(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	e.addQP(verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	t.ok(e.qp.Connect(e.ep, absent(e), &verbs.ConnectOptions{Timeout: 20}))
	lim := e.qp.Query().Cap
	sends := make([]verbs.SendWR, lim.MaxSendWR+1)
	for i := range sends {
		sends[i] = verbs.SendWR{Op: verbs.OpSend}
	}
	n, err := e.qp.PostSendList(sends)
	t.fails(err, verbs.ErrQueueFull)
	if n != lim.MaxSendWR {
		t.Errorf("posted %d sends, want %d", n, lim.MaxSendWR)
	}
	n, err = e.qp.PostRecvList(make([]verbs.RecvWR, lim.MaxRecvWR+1))
	t.fails(err, verbs.ErrQueueFull)
	if n != lim.MaxRecvWR {
		t.Errorf("posted %d receives, want %d", n, lim.MaxRecvWR)
	}
}

// testUnsignaled holds that work requests that are not signaled free their places when a
// later one completes, and complete with no WC.
func testUnsignaled(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 8}}})
	for round := range 10 {
		for range 7 {
			t.ok(a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)}))
		}
		if wc := a.do(verbs.SendWR{ID: 100 + uint64(round), Op: verbs.OpWrite, SGL: a.sgl(0, 8),
			Remote: b.at(0)}); wc.ID != 100+uint64(round) {
			t.Fatalf("completion of %d", wc.ID)
		}
	}
	t.none(a.scq)
}

func testSignalAll(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{SignalAll: true}})
	t.ok(a.qp.PostSend(&verbs.SendWR{ID: 8, Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)}))
	if wc := a.sent(verbs.StatusSuccess); wc.ID != 8 {
		t.Errorf("completion of %d, want 8", wc.ID)
	}
}

func testInline(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxInline: 1500}}})
	lim := a.qp.Query().Cap
	for i, n := range []int{1, 64, lim.MaxInline} {
		buf := make([]byte, n) // not registered
		pattern(buf, i)
		b.recv(1, 0, n)
		a.post(verbs.SendWR{Op: verbs.OpSend, Inline: buf})
		clear(buf) // taken when posted
		a.sent(verbs.StatusSuccess)
		b.received(verbs.StatusSuccess)
		b.holds(0, n, i)
		pattern(buf, i+5)
		a.post(verbs.SendWR{Op: verbs.OpWrite, Inline: buf, Remote: b.at(2000)})
		clear(buf)
		a.sent(verbs.StatusSuccess)
		b.holds(2000, n, i+5)
	}
	t.fails(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, lim.MaxInline+1)}), verbs.ErrInvalid)
	t.fails(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, Inline: make([]byte, 8), Remote: b.at(0)}), verbs.ErrInvalid)
}

// testFence sends the data that a READ has just brought: without the fence the SEND could leave
// before (IBTA 10.8.3.3).
func testFence(t *T) {
	const n = 200 << 10
	a, b := t.pair(setup{size: n})
	for i := range 4 {
		b.fill(0, n, i)
		back := t.backBuffer(b, n)
		t.ok(b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{back.SGE(0, n)}}))
		t.ok(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, n), Remote: b.at(0)}))
		a.do(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Fence, SGL: a.sgl(0, n)})
		b.received(verbs.StatusSuccess)
		want := make([]byte, n)
		pattern(want, i)
		back.Do(func(p []byte) {
			if string(p) != string(want) {
				t.Errorf("round %d: the fenced SEND left before the READ had completed", i)
			}
		})
	}
}

// backBuffer registers another region at an end.
func (t *T) backBuffer(e *end, n int) *verbs.MR {
	t.Helper()
	return value(e.pd.RegMR(make([]byte, n), verbs.LocalWrite))(t)
}

// testGiB sends a message of 1 GiB out of and into 32 MiB, named 32 times.
func testGiB(t *T) {
	if !t.f.Long {
		t.Skip("a message of 1 GiB takes seconds: one suite of a kind sends it")
	}
	testrun.SkipUnlessLong(t, "a message of 1 GiB takes seconds")
	const part, count = 32 << 20, 32
	a, b := t.pair(setup{size: part, qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendSGE: count, MaxRecvSGE: count}}})
	if lim := a.dev.Query().MaxSGE; lim < count {
		t.Skipf("MaxSGE is %d", lim)
	}
	a.fill(0, part, 1)
	var out, in []verbs.SGE
	for range count {
		out, in = append(out, a.mr.SGE(0, part)), append(in, b.mr.SGE(0, part))
	}
	t.ok(b.qp.PostRecv(&verbs.RecvWR{SGL: in}))
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: out})
	for wait := 6; wait > 0; wait-- { // so long that it may take more than one patience
		var wc [1]verbs.WC
		if n, _ := a.scq.Wait(t.within(), wc[:]); n > 0 {
			if wc[0].Status != verbs.StatusSuccess {
				t.Fatal(wc[0].Status)
			}
			break
		}
	}
	if wc := b.received(verbs.StatusSuccess); wc.ByteLen != part*count {
		t.Errorf("received %d bytes", wc.ByteLen)
	}
	b.holds(0, part, 1)
}
