// SPDX-License-Identifier: Apache-2.0

// Package madclient runs the agents of C programs that send management datagrams themselves: package madagent with a
// clock and a device. An Agent may be used from any goroutine.
package madclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/madagent"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Event is a datagram for the program, or a request without a response.
type Event = madagent.Event

// Agent is an open agent.
type Agent struct {
	mad     *umad.Agent
	deliver func(Event)
	stop    context.CancelFunc
	started time.Time

	mu     sync.Mutex
	closed bool
	state  madagent.Agent
	timer  *time.Timer
}

// Open registers an agent at the queue pair of its class. With rmpp, responses in segments are put together.
// deliver is called with a lock held and must not block.
func Open(dev *verbs.Device, port int, spec umad.Spec, rmpp bool, deliver func(Event)) (*Agent, error) {
	qp := verbs.QPN(ib.QP1)
	if spec.Class.Subnet() {
		qp = ib.QP0
	}
	m, err := umad.Open(dev, port, qp, spec)
	if err != nil {
		return nil, err
	}
	a := &Agent{mad: m, deliver: deliver, started: time.Now()}
	a.state.RMPP = rmpp
	a.timer = time.AfterFunc(time.Hour, func() { a.do(a.state.HandleTimeout) })
	a.timer.Stop()
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	go a.receive(ctx)
	return a, nil
}

// Close closes the agent. Nothing is delivered afterwards.
func (a *Agent) Close() {
	a.stop()
	a.mad.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.timer.Stop()
}

// receive handles datagrams until the agent is closed.
func (a *Agent) receive(ctx context.Context) {
	var b [umad.Len]byte
	for {
		n, from, err := a.mad.Recv(ctx, b[:])
		if err != nil {
			return
		}
		a.do(func(now clock.Time) { a.state.Handle(now, &from, b[:n]) })
	}
}

// Send sends a datagram of at most [umad.Len] bytes. A request with a timeout is repeated after each, retries
// times, until its response or the timeout is delivered. It returns ErrNoMemory if too many requests wait,
// and ErrClosed after Close.
func (a *Agent) Send(to umad.Path, b []byte, timeout time.Duration, retries int) (err error) {
	d := madagent.Datagram{To: to}
	copy(d.MAD[:], b)
	var h mad.Header
	h.Decode(d.MAD[:])
	if h.Method.Asks() {
		h.TID = a.mad.Transaction(uint32(h.TID))
		h.Append(d.MAD[:0])
	}
	waits := timeout > 0 && !h.Method.Answers()
	err = verbs.ErrClosed // unless do calls the function
	a.do(func(now clock.Time) {
		if waits {
			if err = a.state.Request(now, &d, clock.Time(timeout), retries); err != nil {
				err = verbs.ErrNoMemory
				return
			}
		}
		if err = a.mad.Send(d.To, d.MAD[:]); err == nil {
			return
		}
		if waits && errors.Is(err, verbs.ErrQueueFull) {
			err = nil // it will be repeated
		} else if waits {
			a.state.Forget(h.TID)
		}
	})
	return err
}

// do calls f with the lock held, unless the agent is closed, and then sends and delivers the agent's datagrams.
func (a *Agent) do(f func(now clock.Time)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	now := clock.Time(time.Since(a.started)) + 1
	f(now)
	var d madagent.Datagram
	for a.state.NextDatagram(&d) {
		a.mad.Send(d.To, d.MAD[:]) // a datagram that cannot be sent counts as lost
	}
	var e Event
	for a.state.NextEvent(&e) {
		a.deliver(e)
	}
	if at := a.state.Deadline(); at != 0 {
		a.timer.Reset(time.Duration(max(at-now, 0)))
	} else {
		a.timer.Stop()
	}
}
