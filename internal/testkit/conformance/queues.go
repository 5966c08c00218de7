// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

var queueTests = []test{
	{name: "CQ/Create", run: testCreateCQ},
	{name: "CQ/Poll", run: testPoll},
	{name: "CQ/Resize", run: testResize},
	{name: "CQ/Timestamps", run: testTimestamps},
	{name: "CQ/Overflow", run: testOverflow},
	{name: "CQ/Shared", run: testSharedCQ},
	{name: "CQ/Forget", run: testForget},
}

func testCreateCQ(t *T) {
	dev, _ := t.devices()
	for _, n := range []int{-1, 0, dev.Query().MaxCQE + 1} {
		_, err := dev.CreateCQ(n, nil)
		t.fails(err, verbs.ErrInvalid)
	}
	cq := value(dev.CreateCQ(17, nil))(t)
	if cq.Capacity() < 17 || cq.Device() != dev {
		t.Errorf("capacity %d, device %p, want 17 at least and %p", cq.Capacity(), cq.Device(), dev)
	}
	if n := cq.Poll(make([]verbs.WC, 4)); n != 0 {
		t.Errorf("%d completions in a new queue", n)
	}
	if n := cq.Poll(nil); n != 0 {
		t.Errorf("%d completions in no room", n)
	}
	t.ok(cq.Err())
}

// writes posts n signaled writes of a byte with ids from first on.
func (e *end) writes(to *end, first, n int) {
	e.t.Helper()
	for i := range n {
		e.post(verbs.SendWR{ID: uint64(first + i), Op: verbs.OpWrite, SGL: e.sgl(0, 1), Remote: to.at(0)})
	}
}

func testPoll(t *T) {
	a, b := t.pair(setup{})
	const n = 10
	a.writes(b, 0, n)
	var wcs [4]verbs.WC
	for next := uint64(0); next < n; {
		got := value(a.scq.Wait(t.within(), wcs[:]))(t)
		for _, wc := range wcs[:got] {
			if wc.ID != next || wc.Status != verbs.StatusSuccess || wc.Op != verbs.WCWrite || wc.QPN != a.qp.Num() {
				t.Fatalf("completion %+v, want success of write %d", wc, next)
			}
			next++
		}
	}
	t.none(a.scq)
}

func testResize(t *T) {
	a, b := t.pair(setup{cqe: 4})
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)}) // they have met
	a.writes(b, 0, 4)
	t.ok(a.scq.Resize(64))
	if c := a.scq.Capacity(); c < 64 {
		t.Errorf("capacity %d after Resize(64)", c)
	}
	a.writes(b, 4, 20)
	a.idle(b)
	t.fails(a.scq.Resize(8), verbs.ErrInvalid)
	t.fails(a.scq.Resize(0), verbs.ErrInvalid)
	t.fails(a.scq.Resize(a.dev.Query().MaxCQE+1), verbs.ErrInvalid)
	for i := range uint64(24) {
		if wc := a.sent(verbs.StatusSuccess); wc.ID != i {
			t.Fatalf("completion of %d, want %d", wc.ID, i)
		}
	}
	t.ok(a.scq.Resize(8))
	t.ok(a.scq.Err())
}

// idle waits until everything that was posted has completed, without taking completions.
// SQD completes work requests that have begun and holds the rest (IBTA 10.3.1.5), so a last message shows
// the other end that all has begun.
func (e *end) idle(to *end) {
	e.t.Helper()
	to.recv(0, 0, 0)
	e.t.ok(e.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	to.received(verbs.StatusSuccess)
	e.t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateSQD, SQDAsyncNotify: true},
		verbs.MaskState|verbs.MaskSQDAsyncNotify))
	e.event(verbs.EventSQDrained)
	e.t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
}

func testTimestamps(t *T) {
	a, b := t.pair(setup{})
	last := a.dev.Clock()
	for range 3 {
		a.writes(b, 0, 1)
		wc := a.sent(verbs.StatusSuccess)
		if now := a.dev.Clock(); wc.Timestamp < last || wc.Timestamp > now {
			t.Errorf("timestamp %d is not between %d and %d", wc.Timestamp, last, now)
		}
		last = wc.Timestamp
	}
}

func testOverflow(t *T) {
	a, b := t.pair(setup{cqe: 2})
	a.writes(b, 0, 4)
	ev := a.event(verbs.EventCQError)
	if ev.CQ != a.scq || ev.QP != nil {
		t.Errorf("event of %p, want %p", ev.CQ, a.scq)
	}
	if ev = a.event(verbs.EventQPFatal); ev.QP != a.qp {
		t.Errorf("event of %p, want %p", ev.QP, a.qp)
	}
	a.state(verbs.StateError)
	t.fails(a.scq.Err(), verbs.ErrOverflow)
	a.sent(verbs.StatusSuccess)
	a.sent(verbs.StatusSuccess)
	_, err := a.scq.Wait(t.within(), make([]verbs.WC, 1))
	t.fails(err, verbs.ErrOverflow)
}

func testSharedCQ(t *T) {
	a, b := t.pair(setup{})
	first, firstEP := a.qp, a.ep
	cq := value(b.dev.CreateCQ(16, nil))(t)
	b.addQP(verbs.QPInit{SendCQ: cq, RecvCQ: cq})
	a.addQP(verbs.QPInit{SendCQ: a.scq, RecvCQ: a.scq})
	t.join(a, b, verbs.ConnectOptions{})
	b.recv(7, 0, 16)
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 16)})
	wc := t.status(cq, verbs.StatusSuccess)
	if wc.ID != 7 || wc.QPN != b.qp.Num() || wc.Op != verbs.WCRecv {
		t.Errorf("completion %+v", wc)
	}
	if first.Num() == a.qp.Num() || firstEP.QPN != first.Num() {
		t.Error("two queue pairs with one number")
	}
}

// testForget holds that destroying a queue pair takes its completions with it, and no others.
func testForget(t *T) {
	a, b := t.pair(setup{})
	a.writes(b, 0, 3)
	a.idle(b)
	old := a.qp
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	a.writes(b, 100, 1)
	a.idle(b)
	t.ok(old.Close())
	if wc := a.sent(verbs.StatusSuccess); wc.ID != 100 {
		t.Errorf("completion of %d, want that of 100", wc.ID)
	}
	t.none(a.scq)
}
