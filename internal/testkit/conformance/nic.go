// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// nicTests hold docs/nic.md to devices that act as NICs.
var nicTests = []test{
	{name: "NIC/Attributes", run: testNICAttributes, needs: []Ability{Strictness}},
	{name: "NIC/SendSlots", run: testSendSlots, needs: []Ability{Strictness}},
	{name: "NIC/UnsignaledSlots", run: testUnsignaledSlots, needs: []Ability{Strictness}},
	{name: "NIC/RecvSlots", run: testRecvSlots, needs: []Ability{Strictness}},
	{name: "NIC/SharedSlots", run: testSharedSlots, needs: []Ability{SharedRecvs, Strictness}},
	{name: "NIC/Flush", run: testNICFlush, needs: []Ability{Strictness}},
	{name: "NIC/Reset", run: testNICReset, needs: []Ability{Strictness}},
	{name: "NIC/Overflow", run: testNICOverflow, needs: []Ability{Strictness}},
	{name: "NIC/Failed", run: testNICFailed, needs: []Ability{Strictness}},
	{name: "NIC/NoReceive", run: testNICNoReceive, needs: []Ability{Strictness}},
	{name: "NIC/Reads", run: testNICReads, needs: []Ability{Strictness}},
	{name: "NIC/Handles", run: testNICHandles, needs: []Ability{Datagrams, Strictness}},
	{name: "NIC/Late", run: testNICLate, needs: []Ability{Strictness}},
	{name: "NIC/Exchange", run: testNICExchange, needs: []Ability{Strictness}},
}

// actAsNIC has a device act as a NIC, or skips the test on devices that are not of software.
func (t *T) actAsNIC(dev *verbs.Device) error {
	d, ok := driver.DeviceOf(dev).(interface{ ActAsNIC() error })
	if !ok {
		t.Skip("only devices in software act as NICs on request")
	}
	return d.ActAsNIC()
}

// nics makes two ends without queue pairs, on devices that act as NICs.
func (t *T) nics(s setup) (a, b *end) {
	t.Helper()
	da, db := t.devices()
	for _, dev := range []*verbs.Device{da, db} {
		t.ok(t.actAsNIC(dev))
	}
	return t.newEnd(da, s), t.newEnd(db, s)
}

// nicPair makes two connected ends on devices that act as NICs.
func (t *T) nicPair(s setup) (a, b *end) {
	t.Helper()
	a, b = t.nics(s)
	a.addQP(s.qp)
	b.addQP(s.qp)
	t.join(a, b, s.connect)
	return a, b
}

// full makes sure that the send queue takes no further work request.
func (e *end) full(to *end) {
	e.t.Helper()
	if err := e.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: e.sgl(0, 1), Remote: to.at(0)}); !errors.Is(err,
		verbs.ErrQueueFull) {
		e.t.Fatalf("a work request beyond the send queue's length: %v, want %v", err, verbs.ErrQueueFull)
	}
}

// settled waits until every work request of the send queue has been carried out.
func (e *end) settled() {
	e.t.Helper()
	e.t.eventually(func() bool { return value(e.qp.Stats())(e.t).SendQueue == 0 }, "empty send queue")
}

// unsignaled posts n unsignaled WRITEs of a byte.
func (e *end) unsignaled(to *end, n int) {
	e.t.Helper()
	for range n {
		e.t.ok(e.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: e.sgl(0, 1), Remote: to.at(0)}))
	}
}

// testNICAttributes: queues are as long as asked, and a device with queues stays as it is.
func testNICAttributes(t *T) {
	a, _ := t.nics(setup{cqe: 17})
	if n := a.scq.Capacity(); n != 17 {
		t.Errorf("a completion queue of %d entries, asked for 17", n)
	}
	want := verbs.QPCap{MaxSendWR: 3, MaxRecvWR: 5, MaxSendSGE: 1, MaxRecvSGE: 2, MaxInline: 9}
	a.addQP(verbs.QPInit{Cap: want})
	if got := a.qp.Query().Cap; got != want {
		t.Errorf("a queue pair with %+v, asked for %+v", got, want)
	}
	a.addQP(verbs.QPInit{Exact: true, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if got, want := a.qp.Query().Cap, (verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}); got != want {
		t.Errorf("a queue pair with %+v, asked for exactly %+v", got, want)
	}
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1},
		verbs.MaskState|verbs.MaskPKeyIndex|verbs.MaskPort|verbs.MaskAccess))
	if err := a.qp.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("a receive for a queue of length 0: %v, want %v", err, verbs.ErrQueueFull)
	}
	if err := t.actAsNIC(a.dev); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a device with queues becomes a NIC: %v, want %v", err, verbs.ErrBusy)
	}
}

// testSendSlots: a place in the send queue is free once the completion has been polled, not once it is there.
func testSendSlots(t *T) {
	const length = 4
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: length}}})
	for round := range 3 {
		a.unsignaled(b, length-1)
		a.writes(b, round, 1)
		a.settled()
		a.full(b)
		if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(round) {
			t.Errorf("completion of %d, want %d", wc.ID, round)
		}
	}
	a.writes(b, 10, length)
	a.settled()
	for i := range length {
		a.full(b)
		a.sent(verbs.StatusSuccess)
		a.writes(b, 20+i, 1)
	}
	all := make([]verbs.SendWR, length+1)
	for i := range all {
		all[i] = verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 1), Remote: b.at(0), Flags: verbs.Signaled}
	}
	for range length {
		a.sent(verbs.StatusSuccess)
	}
	if n, err := a.qp.PostSendList(all); n != length || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d work requests of a list of %d posted, error %v; want %d, %v", n, len(all), err, length,
			verbs.ErrQueueFull)
	}
}

// testUnsignaledSlots: a queue full of work requests without completions stays full.
func testUnsignaledSlots(t *T) {
	const length = 3
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: length}}})
	a.unsignaled(b, length-1)
	a.fill(0, 1, 1)
	t.ok(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 1), Remote: b.at(8)}))
	t.eventually(func() (there bool) {
		b.mr.Do(func(m []byte) { there = m[8] != 0 })
		return there
	}, "the last WRITE is carried out")
	a.full(b)
	t.none(a.scq)
	a.full(b)
}

// testRecvSlots: the same of receives.
func testRecvSlots(t *T) {
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxRecvWR: 2}}})
	over := func() {
		t.Helper()
		if err := b.qp.PostRecv(&verbs.RecvWR{SGL: b.sgl(0, 8)}); !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("a receive beyond the queue's length: %v, want %v", err, verbs.ErrQueueFull)
		}
	}
	b.recv(0, 0, 8)
	b.recv(1, 0, 8)
	for i := range uint64(5) {
		over()
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		t.eventually(func() bool { return value(b.qp.Stats())(t).RecvQueue == 1 }, "a receive is taken")
		over()
		if wc := b.received(verbs.StatusSuccess); wc.ID != i {
			t.Errorf("completion of %d, want %d", wc.ID, i)
		}
		b.recv(i+2, 0, 8)
	}
}

// testSharedSlots: the same of shared receive queues, also for receives that a queue pair takes with it.
func testSharedSlots(t *T) {
	a, b := t.nics(setup{})
	srq := value(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 2, MaxSGE: 1}))(t)
	post := func() error { return srq.PostRecv(&verbs.RecvWR{SGL: b.sgl(0, 8)}) }
	over := func() {
		t.Helper()
		if err := post(); !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatalf("a receive beyond the queue's length: %v, want %v", err, verbs.ErrQueueFull)
		}
	}
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{SRQ: srq})
	t.join(a, b, verbs.ConnectOptions{})
	t.ok(post())
	t.ok(post())
	over()
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	t.eventually(func() bool { return value(b.qp.Stats())(t).RecvMessages == 1 }, "a message is received")
	over()
	t.fails(srq.Modify(verbs.SRQAttr{MaxWR: 1}, verbs.SRQMaxWR), verbs.ErrInvalid)
	b.received(verbs.StatusSuccess)
	t.ok(post())
	over()
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	t.eventually(func() bool { return value(b.qp.Stats())(t).RecvMessages == 2 }, "a message is received")
	over()
	t.ok(b.qp.Close()) // with its completion
	t.ok(post())
	over()
}

// testNICFlush: both queues are flushed in order, and places are free as the flushed completions are polled.
func testNICFlush(t *T) {
	const length = 4
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: length, MaxRecvWR: length}}})
	for i := range uint64(length) {
		a.recv(i, 0, 8)
	}
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	for i := range uint64(length) {
		t.ok(a.qp.PostSend(&verbs.SendWR{ID: i, Op: verbs.OpWrite, SGL: a.sgl(0, 1), Remote: b.at(0)}))
	}
	a.full(b)
	for i := range uint64(length) {
		if s, r := a.sent(verbs.StatusWRFlushError), a.received(verbs.StatusWRFlushError); s.ID != i || r.ID != i {
			t.Errorf("send %d and receive %d were flushed, want %d", s.ID, r.ID, i)
		}
		t.ok(a.qp.PostSend(&verbs.SendWR{ID: i + length, Op: verbs.OpWrite, SGL: a.sgl(0, 1), Remote: b.at(0)}))
		a.full(b)
	}
	a.recv(9, 0, 8)
	if wc := a.received(verbs.StatusWRFlushError); wc.ID != 9 {
		t.Errorf("receive %d was flushed, want 9", wc.ID)
	}
}

// testNICReset: RESET empties both queues, and takes unpolled completions with it.
func testNICReset(t *T) {
	const length = 3
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: length, MaxRecvWR: length}}})
	for range length {
		a.recv(0, 0, 8)
	}
	a.writes(b, 0, length)
	a.settled()
	a.full(b)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	t.none(a.scq)
	if t.f.Connect != nil || t.late() {
		return // it cannot be connected anew
	}
	t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	t.join(a, b, verbs.ConnectOptions{})
	for range length {
		a.recv(0, 0, 8)
	}
	a.writes(b, 0, length)
	a.full(b)
	a.sent(verbs.StatusSuccess)
}

// testNICOverflow: all queue pairs of a completion queue that overflows are broken, and nothing of it can be polled.
func testNICOverflow(t *T) {
	a, b := t.nicPair(setup{cqe: 2})
	first := a.qp
	a.addQP(verbs.QPInit{RecvCQ: a.scq, SendCQ: a.rcq})
	second := a.qp
	t.ok(second.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1},
		verbs.MaskState|verbs.MaskPKeyIndex|verbs.MaskPort|verbs.MaskAccess))
	a.qp = first
	a.writes(b, 0, 4)
	if ev := a.event(verbs.EventCQError); ev.CQ != a.scq {
		t.Errorf("event of %p, want %p", ev.CQ, a.scq)
	}
	broken := map[*verbs.QP]bool{}
	for range 2 {
		broken[a.event(verbs.EventQPFatal).QP] = true
	}
	if !broken[first] || !broken[second] {
		t.Errorf("events of %v, want of both queue pairs of the completion queue", broken)
	}
	for _, qp := range []*verbs.QP{first, second} {
		if s := qp.State(); s != verbs.StateError {
			t.Errorf("a queue pair of a completion queue that has overflowed is in %v", s)
		}
	}
	if n := a.scq.Poll(make([]verbs.WC, 4)); n != 0 {
		t.Errorf("%d completions of a queue that has overflowed", n)
	}
	t.fails(a.scq.Err(), verbs.ErrOverflow)
	_, err := a.scq.Wait(t.within(), make([]verbs.WC, 1))
	t.fails(err, verbs.ErrOverflow)
}

// testNICFailed: the completion of a work request that failed says no more than the specification promises.
func testNICFailed(t *T) {
	a, b := t.nicPair(setup{})
	a.recv(3, 0, 8)
	a.post(verbs.SendWR{ID: 7, Op: verbs.OpRead, SGL: []verbs.SGE{{Addr: 0, Length: 8, LKey: 0}}, Remote: b.at(0)})
	wc := a.sent(verbs.StatusLocalProtectionError)
	wc.Timestamp = 0
	if want := (verbs.WC{ID: 7, Status: verbs.StatusLocalProtectionError, QPN: a.qp.Num(),
		VendorErr: wc.VendorErr}); wc != want {
		t.Errorf("completion %+v, want %+v", wc, want)
	}
	wc = a.received(verbs.StatusWRFlushError)
	wc.Timestamp = 0
	if want := (verbs.WC{ID: 3, Status: verbs.StatusWRFlushError, QPN: a.qp.Num()}); wc != want {
		t.Errorf("completion %+v, want %+v", wc, want)
	}
}

// testNICNoReceive: a SEND that finds no receive fails after the retries, and ends a stream.
func testNICNoReceive(t *T) {
	a, b := t.nicPair(setup{connect: verbs.ConnectOptions{RNRRetry: 1}})
	if t.f.Connect != nil && !t.late() {
		return // the connection's way does not ask for a number of retries
	}
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	a.turnedDown(verbs.StatusRNRRetryExceeded)
	a.state(verbs.StateError)
	if t.late() {
		b.state(verbs.StateError)
	}
}

// testNICReads: iWARP demands RemoteWrite of the memory that a READ puts its data into, and others do not.
func testNICReads(t *T) {
	a, b := t.nicPair(setup{})
	stream := t.medium() == streamMedium
	if n := a.dev.Query().MaxSGERead; (n == 1) != stream {
		t.Errorf("MaxSGERead is %d", n)
	}
	b.fill(0, 16, 1)
	two := verbs.SendWR{Op: verbs.OpRead, SGL: append(a.sgl(64, 8), a.sgl(72, 8)...), Remote: b.at(0)}
	if stream {
		t.fails(a.qp.PostSend(&two), verbs.ErrInvalid, "MaxSGERead is 1")
	} else {
		a.do(two)
		a.holds(64, 16, 1)
	}
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(32, 16), Remote: b.at(0)})
	a.holds(32, 16, 1)
	sink := value(a.pd.RegMR(make([]byte, 16), verbs.LocalWrite))(t)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{sink.SGE(0, 16)}, Remote: b.at(0)})
	if !stream {
		a.sent(verbs.StatusSuccess)
		t.same(sink, 0, func() []byte { p := make([]byte, 16); pattern(p, 1); return p }())
		return
	}
	a.sent(verbs.StatusLocalProtectionError)
	if f := a.qp.Failure(); f == nil || f.Reason != verbs.ReasonNoRight || f.Need != verbs.RemoteWrite {
		t.Errorf("the failure is %v, want that %v is missing", f, verbs.RemoteWrite)
	}
}

// testNICHandles: a queue pair does not send by an address handle of another protection domain.
func testNICHandles(t *T) {
	a, b := t.nics(setup{})
	for _, e := range []*end{a, b} {
		e.addQP(verbs.QPInit{Type: verbs.UD})
		t.ok(e.qp.StartUD(7))
	}
	pd := value(a.dev.AllocPD())(t)
	own, other := value(a.pd.CreateAH(way(b.ep)))(t), value(pd.CreateAH(way(b.ep)))(t)
	b.recv(1, 0, 64)
	send := func(ah *verbs.AH) {
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8), AH: ah, RemoteQPN: b.qp.Num(), RemoteQKey: 7})
	}
	send(own)
	a.sent(verbs.StatusSuccess)
	b.received(verbs.StatusSuccess)
	send(other)
	a.sent(verbs.StatusLocalQPOperationError)
	a.state(verbs.StateSQE)
}

// testNICLate: completions that faults hold back free their places when they have been polled.
func testNICLate(t *T) {
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 2}}})
	t.inject(a.dev, "late 5ms")
	for range 3 {
		a.unsignaled(b, 1)
		a.writes(b, 1, 1)
		a.settled()
		a.full(b)
		a.sent(verbs.StatusSuccess)
	}
	t.strikes(a.dev)
}

// testNICExchange: programs that keep to the rules see no difference.
func testNICExchange(t *T) {
	a, b := t.nicPair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}, cqe: 1})
	t.exchange(a, b, 5)
	for i, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap,
		verbs.OpWriteImm} {
		if t.without(op) {
			continue
		}
		if op == verbs.OpWriteImm {
			b.recv(0, 0, 0)
		}
		a.do(verbs.SendWR{ID: uint64(i), Op: op, SGL: a.sgl(0, 8), Remote: b.at(8)})
		if op == verbs.OpWriteImm {
			b.received(verbs.StatusSuccess)
		}
	}
}
