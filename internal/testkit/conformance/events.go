// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var eventTests = []test{
	{name: "Channel/Notify", run: testNotify},
	{name: "Channel/Solicited", run: testSolicited},
	{name: "Channel/SolicitedError", run: testSolicitedError},
	{name: "Channel/SeveralQueues", run: testSeveralQueues},
	{name: "Channel/Cancel", run: testChannelCancel},
	{name: "Channel/Close", run: testChannelClose},
	{name: "Channel/Sleep", run: testSleep},
	{name: "Event/CommEstablished", run: testCommEstablished, needs: []Ability{Numbered}},
	{name: "Event/Cancel", run: testEventCancel},
}

// listen gives the end a receive queue with a channel.
func (e *end) listen() *verbs.CompChannel {
	e.t.Helper()
	ch := value(e.dev.CreateCompChannel())(e.t)
	e.rcq = value(e.dev.CreateCQ(64, &verbs.CQOptions{Channel: ch}))(e.t)
	return ch
}

// listener makes a pair whose second end has a channel.
func listener(t *T) (a, b *end, ch *verbs.CompChannel) {
	t.Helper()
	da, db := t.devices()
	a, b = t.newEnd(da, setup{}), t.newEnd(db, setup{})
	ch = b.listen()
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	return a, b, ch
}

// noEvent makes sure that a channel has no event for a moment.
func (t *T) noEvent(ch *verbs.CompChannel) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	if _, err := ch.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a completion event (%v), want none", err)
	}
}

// message sends one byte into a posted receive.
func (e *end) message(flags verbs.SendFlags) {
	e.t.Helper()
	e.do(verbs.SendWR{Op: verbs.OpSend, Flags: flags, SGL: e.sgl(0, 1)})
}

func testNotify(t *T) {
	a, b, ch := listener(t)
	for i := range 6 {
		b.recv(uint64(i), 0, 16)
	}
	t.none(b.rcq) // to wait for a completion is not to ask for an event
	a.message(0)
	t.noEvent(ch)
	b.received(verbs.StatusSuccess)
	for range 2 {
		t.ok(b.rcq.ReqNotify(false))
		a.message(0)
		a.message(0)
		if cq := value(ch.Wait(t.within()))(t); cq != b.rcq {
			t.Fatalf("event of %p, want %p", cq, b.rcq)
		}
		t.noEvent(ch) // one event an asking
		b.received(verbs.StatusSuccess)
		b.received(verbs.StatusSuccess)
	}
}

func testSolicited(t *T) {
	a, b, ch := listener(t)
	for i := range 2 {
		b.recv(uint64(i), 0, 16)
	}
	t.ok(b.rcq.ReqNotify(true))
	a.message(0)
	t.noEvent(ch)
	a.message(verbs.Solicited)
	if cq := value(ch.Wait(t.within()))(t); cq != b.rcq { // which keeps it: events of unreachable queues vanish
		t.Fatalf("event of %p, want %p", cq, b.rcq)
	}
}

func testSolicitedError(t *T) {
	a, b, ch := listener(t)
	b.recv(0, 0, 16)
	t.ok(b.rcq.ReqNotify(true))
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 17)})
	value(ch.Wait(t.within()))(t)
	b.received(verbs.StatusLocalLengthError)
}

func testSeveralQueues(t *T) {
	a, b, ch := listener(t)
	other := value(b.dev.CreateCQ(64, &verbs.CQOptions{Channel: ch}))(t)
	one := b.rcq
	b.recv(0, 0, 16)
	t.ok(one.ReqNotify(false))
	t.ok(other.ReqNotify(false))
	a.message(0)
	b.addQP(verbs.QPInit{SendCQ: other})
	a.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	b.post(verbs.SendWR{Op: verbs.OpWrite, SGL: b.sgl(0, 1), Remote: a.at(0)})
	t.status(other, verbs.StatusSuccess)
	seen := map[*verbs.CQ]bool{}
	for range 2 {
		seen[value(ch.Wait(t.within()))(t)] = true
	}
	if !seen[one] || !seen[other] {
		t.Errorf("events of %v, want of %p and %p", seen, one, other)
	}
}

func testChannelCancel(t *T) {
	dev, _ := t.devices()
	ch := value(dev.CreateCompChannel())(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := ch.Wait(ctx); done <- err }()
	cancel()
	if err := t.finish(done); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait ended with %v", err)
	}
}

func testChannelClose(t *T) {
	dev, _ := t.devices()
	ch := value(dev.CreateCompChannel())(t)
	cq := value(dev.CreateCQ(4, &verbs.CQOptions{Channel: ch}))(t)
	t.fails(ch.Close(), verbs.ErrBusy)
	t.ok(cq.Close())
	done := make(chan error, 2)
	for range 2 {
		go func() { _, err := ch.Wait(t.within()); done <- err }()
	}
	t.ok(ch.Close())
	for range 2 {
		t.fails(t.finish(done), verbs.ErrClosed)
	}
	t.ok(ch.Close())
	_, err := dev.CreateCQ(4, &verbs.CQOptions{Channel: ch})
	t.fails(err, verbs.ErrClosed)
}

// testSleep has both ends sleep, without polling, in a ping-pong.
func testSleep(t *T) {
	a, b := t.pair(setup{})
	for _, e := range []*end{a, b} {
		e.rcq = value(e.dev.CreateCQ(64, &verbs.CQOptions{Spin: -1}))(t)
		e.addQP(verbs.QPInit{})
	}
	t.join(a, b, verbs.ConnectOptions{})
	const rounds = 20
	for i := range rounds {
		a.recv(uint64(i), 0, 8)
		b.recv(uint64(i), 0, 8)
	}
	done := make(chan error, 1)
	ctx := t.within()
	go func() {
		var wc [1]verbs.WC
		for range rounds {
			if _, err := b.rcq.Wait(ctx, wc[:]); err != nil {
				done <- err
				return
			}
			if err := b.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: b.sgl(0, 8)}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range rounds {
		t.ok(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)}))
		a.received(verbs.StatusSuccess)
	}
	t.ok(t.finish(done))
}

// testCommEstablished lets a message arrive at a queue pair that is not in RTS yet.
func testCommEstablished(t *T) {
	da, db := t.devices()
	a, b := t.newEnd(da, setup{}), t.newEnd(db, setup{})
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	b.step(verbs.StateInit, a.ep)
	b.step(verbs.StateRTR, a.ep)
	b.recv(0, 0, 16)
	t.ok(a.qp.Connect(a.ep, b.ep, &verbs.ConnectOptions{Timeout: patient}))
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 16)})
	b.received(verbs.StatusSuccess)
	if ev := b.event(verbs.EventCommEstablished); ev.QP != b.qp {
		t.Errorf("event of %p, want %p", ev.QP, b.qp)
	}
}

func testEventCancel(t *T) {
	dev, _ := t.devices()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dev.Event(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Event ended with %v", err)
	}
}
