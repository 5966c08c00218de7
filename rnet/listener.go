// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Listener accepts stream connections: a net.Listener. As with TCP, a connection is established
// before Accept returns it. The backlog limits how many wait.
type Listener struct {
	inner *cm.Listener
	dev   *verbs.Device
	opt   Options
	addr  *net.TCPAddr

	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	slots   chan struct{} // one element for each connection that is being established or waits
	ready   chan *Conn

	mu       sync.Mutex
	deadline time.Time
	changed  chan struct{} // closed when deadline changes
	closed   bool
}

var _ net.Listener = (*Listener)(nil)

// serve handles requests, each in a goroutine of its own, so that a slow peer delays nobody.
func (l *Listener) serve() {
	defer l.running.Done()
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		req, err := l.inner.Next(l.ctx)
		if err != nil {
			l.cancel(err)
			return
		}
		l.running.Go(func() {
			defer func() { <-l.slots }()
			c, err := l.take(req)
			if err != nil {
				return // an error of the peer: it was rejected, or went away
			}
			select {
			case l.ready <- c:
			case <-l.ctx.Done():
				c.Close()
			}
		})
	}
}

// acceptTimeout limits how long a peer may take to confirm.
const acceptTimeout = 30 * time.Second

func (l *Listener) take(req *cm.Request) (*Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, acceptTimeout)
	defer cancel()
	return AcceptRequest(ctx, req, &l.opt)
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn returns the next connection with its concrete type.
func (l *Listener) AcceptConn() (*Conn, error) {
	for {
		l.mu.Lock()
		deadline, changed := l.deadline, l.changed
		l.mu.Unlock()
		c, err := l.acceptUntil(deadline, changed)
		if c != nil || err != nil {
			return c, err
		}
	}
}

// acceptUntil waits until changed is closed, and then returns nothing.
func (l *Listener) acceptUntil(deadline time.Time, changed <-chan struct{}) (*Conn, error) {
	if l.ctx.Err() != nil { // whatever the deadline: a caller that retries after a timeout would do so forever
		return nil, l.opError("accept", context.Cause(l.ctx))
	}
	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
		if time.Until(deadline) <= 0 {
			return nil, l.opError("accept", os.ErrDeadlineExceeded)
		}
	}
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, l.opError("accept", context.Cause(l.ctx))
	case <-expired:
		return nil, l.opError("accept", os.ErrDeadlineExceeded)
	case <-changed:
		return nil, nil
	}
}

// SetDeadline sets when Accept gives up; the zero time: never.
func (l *Listener) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// Addr returns the address and port that peers dial, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close stops listening. Connections that Accept has returned stay.
func (l *Listener) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return l.opError("close", net.ErrClosed)
	}
	l.cancel(net.ErrClosed)
	err := l.inner.Close()
	l.running.Wait()
	if err != nil {
		return l.opError("close", err)
	}
	return nil
}

func (l *Listener) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Addr: l.addr, Err: netError(err)}
}
