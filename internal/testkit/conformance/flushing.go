// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

var flushTests = []test{
	{name: "Flush/Order", run: testFlushOrder, needs: []Ability{Numbered}},
	{name: "Flush/Unsignaled", run: testFlushUnsignaled, needs: []Ability{Numbered}},
	{name: "Flush/AfterFailure", run: testFlushAfterFailure},
	{name: "Flush/SQE", run: testSQE, needs: []Ability{Unreliable}},
	{name: "Drain/Waits", run: testDrain},
	{name: "Drain/Notify", run: testDrainNotify},
	{name: "Drain/Idle", run: testDrainIdle},
	{name: "Drain/AtOnce", run: testDrainAtOnce},
}

// absent is an endpoint that nobody answers for.
func absent(e *end) verbs.Endpoint {
	ep := e.ep
	ep.QPN ^= 0x800000
	return ep
}

func testFlushOrder(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	e.addQP(verbs.QPInit{})
	t.ok(e.qp.Connect(e.ep, absent(e), &verbs.ConnectOptions{Timeout: 20}))
	const n = 20
	for i := range n {
		e.recv(uint64(i), 0, 8)
		e.post(verbs.SendWR{ID: uint64(i), Op: verbs.Send, SGL: e.sgl(0, 8)})
	}
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.Err}, verbs.MaskState))
	e.flushed(0, n)
	e.post(verbs.SendWR{ID: n, Op: verbs.Read, SGL: e.sgl(0, 8)})
	e.recv(n, 0, 8)
	e.flushed(n, 1)
}

// flushed waits for n flushed sends and receives with ids from first on.
func (e *end) flushed(first, n int) {
	e.t.Helper()
	for i := range n {
		if wc := e.sent(verbs.WRFlushError); wc.ID != uint64(first+i) || wc.QPN != e.qp.Num() {
			e.t.Fatalf("send %d of QP %#x flushed, want %d of %#x", wc.ID, wc.QPN, first+i, e.qp.Num())
		}
		if wc := e.received(verbs.WRFlushError); wc.ID != uint64(first+i) || wc.QPN != e.qp.Num() {
			e.t.Fatalf("receive %d of QP %#x flushed, want %d of %#x", wc.ID, wc.QPN, first+i, e.qp.Num())
		}
	}
	e.t.none(e.scq)
	e.t.none(e.rcq)
}

// testFlushUnsignaled holds that failure is always reported.
func testFlushUnsignaled(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	e.addQP(verbs.QPInit{})
	t.ok(e.qp.Connect(e.ep, absent(e), &verbs.ConnectOptions{Timeout: 20}))
	t.ok(e.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.Send, SGL: e.sgl(0, 8)}))
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.Err}, verbs.MaskState))
	if wc := e.sent(verbs.WRFlushError); wc.ID != 1 {
		t.Errorf("flushed %d, want 1", wc.ID)
	}
}

func testFlushAfterFailure(t *T) {
	a, b := t.pair(setup{})
	bad := b.at(0)
	bad.Key ^= 0x100
	wrs := []verbs.SendWR{
		{ID: 0, Op: verbs.Write, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: b.at(0)},
		{ID: 1, Op: verbs.Write, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: bad},
		{ID: 2, Op: verbs.Write, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: b.at(0)},
		{ID: 3, Op: verbs.Read, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: b.at(0)},
	}
	a.recv(9, 0, 8)
	b.recv(9, 0, 8)
	if n, err := a.qp.PostSendList(wrs); n != 4 || err != nil {
		t.Fatalf("posted %d: %v", n, err)
	}
	for i, want := range []verbs.Status{verbs.Success, verbs.RemoteAccessError, verbs.WRFlushError, verbs.WRFlushError} {
		if wc := a.sent(want); wc.ID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.ID, i)
		}
	}
	a.received(verbs.WRFlushError)
	b.received(verbs.WRFlushError)
	a.state(verbs.Err)
	b.state(verbs.Err)
	if ev := b.event(verbs.EventQPAccessError); ev.QP != b.qp {
		t.Errorf("event of %p, want %p", ev.QP, b.qp)
	}
}

// testSQE holds that an unreliable queue pair recovers from a failed send, and receives
// meanwhile (IBTA 10.3.1.5).
func testSQE(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
	a.breakSend(verbs.UC)
	a.state(verbs.SQE)
	a.post(verbs.SendWR{ID: 3, Op: verbs.Send, SGL: a.sgl(0, 8)})
	a.sent(verbs.WRFlushError)
	a.recv(1, 0, 8)
	b.do(verbs.SendWR{Op: verbs.Send, SGL: b.sgl(0, 8)})
	a.received(verbs.Success)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.RTS}, verbs.MaskState))
	b.recv(1, 0, 8)
	a.do(verbs.SendWR{Op: verbs.Send, SGL: a.sgl(0, 8)})
	b.received(verbs.Success)
}

// testDrain holds that nothing posted in SQD starts before the queue pair is in RTS again.
func testDrain(t *T) {
	a, b := t.pair(setup{})
	a.recv(1, 0, 8)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.SQD}, verbs.MaskState))
	a.post(verbs.SendWR{ID: 4, Op: verbs.Write, SGL: a.sgl(0, 8), Remote: b.at(0)})
	t.none(a.scq)
	b.do(verbs.SendWR{Op: verbs.Send, SGL: b.sgl(0, 8)}) // receiving goes on
	a.received(verbs.Success)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.RTS}, verbs.MaskState))
	if wc := a.sent(verbs.Success); wc.ID != 4 {
		t.Errorf("completion of %d, want 4", wc.ID)
	}
}

func testDrainNotify(t *T) {
	const n = 1 << 20
	a, b := t.pair(setup{size: n})
	for i := range 8 {
		a.post(verbs.SendWR{ID: uint64(i), Op: verbs.Write, SGL: a.sgl(0, n), Remote: b.at(0)})
	}
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.SQD, SQDAsyncNotify: true}, verbs.MaskState|verbs.MaskSQDAsyncNotify))
	if ev := a.event(verbs.EventSQDrained); ev.QP != a.qp {
		t.Errorf("event of %p, want %p", ev.QP, a.qp)
	}
	// What had begun has completed; the rest has not begun.
	var wcs [8]verbs.WC
	done := a.scq.Poll(wcs[:])
	t.none(a.scq)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.RTS}, verbs.MaskState))
	for i := done; i < 8; i++ {
		if wc := a.sent(verbs.Success); wc.ID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.ID, i)
		}
	}
}

func testDrainIdle(t *T) {
	a, _ := t.pair(setup{})
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.SQD, SQDAsyncNotify: true}, verbs.MaskState|verbs.MaskSQDAsyncNotify))
	a.event(verbs.EventSQDrained)
}

// testDrainAtOnce takes one end to SQD as soon as it is connected: what the other sends arrives.
func testDrainAtOnce(t *T) {
	for first := range 2 {
		a, b := t.pair(setup{})
		if first == 1 {
			a, b = b, a
		}
		t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.SQD}, verbs.MaskState))
		b.recv(1, 0, 8)
		a.do(verbs.SendWR{Op: verbs.Send, SGL: a.sgl(0, 8)})
		b.received(verbs.Success)
		t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.RTS}, verbs.MaskState))
		b.do(verbs.SendWR{Op: verbs.Write, SGL: b.sgl(0, 8), Remote: a.at(0)})
	}
}
