// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

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

// absent is an endpoint without a queue pair.
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
		e.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, SGL: e.sgl(0, 8)})
	}
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	e.flushed(0, n)
	e.post(verbs.SendWR{ID: n, Op: verbs.OpRead, SGL: e.sgl(0, 8)})
	e.recv(n, 0, 8)
	e.flushed(n, 1)
}

// flushed waits for n flushed sends and receives with ids from first on.
func (e *end) flushed(first, n int) {
	e.t.Helper()
	for i := range n {
		if wc := e.sent(verbs.StatusWRFlushError); wc.ID != uint64(first+i) || wc.QPN != e.qp.Num() {
			e.t.Fatalf("send %d of QP %#x flushed, want %d of %#x", wc.ID, wc.QPN, first+i, e.qp.Num())
		}
		if wc := e.received(verbs.StatusWRFlushError); wc.ID != uint64(first+i) || wc.QPN != e.qp.Num() {
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
	t.ok(e.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: e.sgl(0, 8)}))
	t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	if wc := e.sent(verbs.StatusWRFlushError); wc.ID != 1 {
		t.Errorf("flushed %d, want 1", wc.ID)
	}
}

func testFlushAfterFailure(t *T) {
	a, b := t.pair(setup{})
	bad := b.at(0)
	bad.Key ^= 0x100
	wrs := []verbs.SendWR{
		{ID: 0, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: b.at(0)},
		{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: bad},
		{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: b.at(0)},
		{ID: 3, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: a.sgl(0, 8), Remote: b.at(0)},
	}
	a.recv(9, 0, 8)
	b.recv(9, 0, 8)
	if n, err := a.qp.PostSendList(wrs); n != 4 || err != nil {
		t.Fatalf("posted %d: %v", n, err)
	}
	for i, want := range []verbs.Status{verbs.StatusSuccess, verbs.StatusRemoteAccessError, verbs.StatusWRFlushError,
		verbs.StatusWRFlushError} {
		if wc := a.sent(want); wc.ID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.ID, i)
		}
	}
	a.received(verbs.StatusWRFlushError)
	b.received(verbs.StatusWRFlushError)
	a.state(verbs.StateError)
	b.state(verbs.StateError)
	if ev := b.event(verbs.EventQPAccessError); ev.QP != b.qp {
		t.Errorf("event of %p, want %p", ev.QP, b.qp)
	}
}

// testSQE holds that an unreliable queue pair recovers from a failed send, and receives
// meanwhile (IBTA 10.3.1.5).
func testSQE(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
	a.breakSend(verbs.UC)
	a.state(verbs.StateSQE)
	a.post(verbs.SendWR{ID: 3, Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	a.sent(verbs.StatusWRFlushError)
	a.recv(1, 0, 8)
	b.do(verbs.SendWR{Op: verbs.OpSend, SGL: b.sgl(0, 8)})
	a.received(verbs.StatusSuccess)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	b.recv(1, 0, 8)
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	b.received(verbs.StatusSuccess)
}

// testDrain holds that nothing posted in SQD starts before the queue pair is in RTS again.
func testDrain(t *T) {
	a, b := t.pair(setup{})
	a.recv(1, 0, 8)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	a.post(verbs.SendWR{ID: 4, Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	t.none(a.scq)
	b.do(verbs.SendWR{Op: verbs.OpSend, SGL: b.sgl(0, 8)}) // receiving goes on
	a.received(verbs.StatusSuccess)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	if wc := a.sent(verbs.StatusSuccess); wc.ID != 4 {
		t.Errorf("completion of %d, want 4", wc.ID)
	}
}

func testDrainNotify(t *T) {
	const n = 1 << 20
	a, b := t.pair(setup{size: n})
	for i := range 8 {
		a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(0)})
	}
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateSQD, SQDAsyncNotify: true},
		verbs.MaskState|verbs.MaskSQDAsyncNotify))
	if ev := a.event(verbs.EventSQDrained); ev.QP != a.qp {
		t.Errorf("event of %p, want %p", ev.QP, a.qp)
	}
	// Work requests that had begun have completed; the rest has not begun.
	var wcs [8]verbs.WC
	done := a.scq.Poll(wcs[:])
	t.none(a.scq)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	for i := done; i < 8; i++ {
		if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.ID, i)
		}
	}
}

func testDrainIdle(t *T) {
	a, _ := t.pair(setup{})
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateSQD, SQDAsyncNotify: true},
		verbs.MaskState|verbs.MaskSQDAsyncNotify))
	a.event(verbs.EventSQDrained)
}

// testDrainAtOnce takes one end to SQD as soon as it is connected: messages of the other end arrive.
func testDrainAtOnce(t *T) {
	for first := range 2 {
		a, b := t.pair(setup{})
		if first == 1 {
			a, b = b, a
		}
		t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
		b.recv(1, 0, 8)
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		b.received(verbs.StatusSuccess)
		t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
		b.do(verbs.SendWR{Op: verbs.OpWrite, SGL: b.sgl(0, 8), Remote: a.at(0)})
	}
}

const sendsFirst = "send 1 flushed, send 2 flushed, receive 10 flushed, receive 11 flushed"

// flushFacts are in which order the completions of a queue pair come that fails.
var flushFacts = []fact{
	{name: "Order/OneQueue", find: flushedInto(false), want: sendsFirst, needs: []Ability{Numbered}},
	{name: "Order/OneQueue/Reversed", find: flushedInto(true), want: sendsFirst, needs: []Ability{Numbered}},
	{name: "Order/PostedLater", find: flushedLater, want: "receive 10 flushed, send 1 flushed, receive 11 flushed"},
	{name: "Order/Failure", find: flushedAfter,
		want: "send 1 remote access error, send 2 flushed, receive 10 flushed"},
	{name: "Order/Receiver", find: flushedAtReceiver, want: "receive 10 local length error, receive 11 flushed"},
	{name: "Order/SRQ", find: flushedOfSRQ, want: "last WQE reached", needs: []Ability{SharedRecvs}},
}

// oneQueue makes two connected ends, each with one queue for all completions.
func (t *T) oneQueue() (a, b *end) {
	da, db := t.devices()
	a, b = t.newEnd(da, setup{}), t.newEnd(db, setup{})
	for _, e := range []*end{a, b} {
		e.addQP(verbs.QPInit{RecvCQ: e.scq})
	}
	t.join(a, b, verbs.ConnectOptions{})
	return a, b
}

// completions waits for n completions, and lists their work requests.
func (e *end) completions(n int) string {
	var list []string
	for range n {
		wc := e.t.next(e.scq)
		side := "send"
		if wc.ID >= 10 {
			side = "receive"
		}
		status := "flushed"
		if wc.Status != verbs.StatusWRFlushError {
			status = wc.Status.String()
		}
		list = append(list, fmt.Sprintf("%s %d %s", side, wc.ID, status))
	}
	e.t.none(e.scq)
	return strings.Join(list, ", ")
}

// flushedInto flushes sends without an answer, and receives that were posted before or after them.
func flushedInto(reversed bool) func(*T) string {
	return func(t *T) string {
		dev, _ := t.devices()
		e := t.newEnd(dev, setup{})
		e.addQP(verbs.QPInit{RecvCQ: e.scq})
		t.ok(e.qp.Connect(e.ep, absent(e), &verbs.ConnectOptions{Timeout: 20}))
		receives := func() {
			e.recv(10, 0, 8)
			e.recv(11, 0, 8)
		}
		if reversed {
			receives()
		}
		e.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: e.sgl(0, 8)})
		e.post(verbs.SendWR{ID: 2, Op: verbs.OpSend, SGL: e.sgl(0, 8)})
		if !reversed {
			receives()
		}
		t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
		return e.completions(4)
	}
}

// flushedLater posts to a queue pair that is in ERR.
func flushedLater(t *T) string {
	a, _ := t.oneQueue()
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	a.recv(10, 0, 8)
	a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	a.recv(11, 0, 8)
	return a.completions(3)
}

// flushedAfter has a READ fail in front of another.
func flushedAfter(t *T) string {
	a, b := t.oneQueue()
	bad := b.at(0)
	bad.Key ^= 0x10000
	a.recv(10, 0, 8)
	list := []verbs.SendWR{
		{ID: 1, Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: bad}, // unsignaled: a failure is reported all the same
		{ID: 2, Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: b.at(0)},
	}
	t.ok(a.qp.PostSendAll(list))
	return a.completions(3)
}

// flushedAtReceiver has a SEND fail at the first of two receives.
func flushedAtReceiver(t *T) string {
	a, b := t.oneQueue()
	b.recv(10, 0, 8)
	b.recv(11, 0, 8)
	a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 9)})
	return b.completions(2)
}

// flushedOfSRQ takes a queue pair to ERR whose receives are shared: they stay, and an event says that it takes no more.
func flushedOfSRQ(t *T) string {
	da, db := t.devices()
	a, b := t.newEnd(da, setup{}), t.newEnd(db, setup{})
	srq := value(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1}))(t)
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{SRQ: srq})
	t.join(a, b, verbs.ConnectOptions{})
	t.ok(srq.PostRecv(&verbs.RecvWR{ID: 10}))
	t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	ev, err := b.dev.Event(t.within())
	t.ok(err)
	t.none(b.rcq)
	return ev.Type.String()
}
