// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Listen listens at "host:port". The host is the device's address, a name of it, or empty. Port 0
// stands for any free port. When ctx ends, so does the look-up of a name; the listener stays.
func Listen(ctx context.Context, dev *verbs.Device, address string) (*Listener, error) {
	return (&ListenConfig{Device: dev}).Listen(ctx, address)
}

// ListenConfig listens with options.
type ListenConfig struct {
	Device  *verbs.Device
	Backlog int // connections that may wait for Accept; default DefaultBacklog

	// MaxConns is how many connections there may be at once, those that wait for Accept included.
	// Further ones are rejected. Each may take as much memory as its buffers. Default
	// DefaultMaxConns, which is as many clients as Valkey has.
	MaxConns int

	Options Options
}

// Listen is like the function, with options.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	o, err := lc.Options.withDefaults(lc.Device)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Err: netError(err)}
	}
	backlog, most := lc.Backlog, lc.MaxConns
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	if most <= 0 {
		most = DefaultMaxConns
	}
	inner, err := cm.Listen(ctx, lc.Device, address, cm.WithBacklog(backlog))
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Err: netError(err)}
	}
	l := &Listener{inner: inner, opt: o, addr: net.TCPAddrFromAddrPort(inner.Addr()), ready: make(chan *Conn),
		slots: make(chan struct{}, backlog), conns: make(chan struct{}, most), changed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.running.Add(1)
	go l.serve()
	return l, nil
}

// Listener accepts connections: a net.Listener. As with TCP, a connection is established before
// Accept returns it.
type Listener struct {
	inner *cm.Listener
	opt   Options
	addr  *net.TCPAddr

	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	slots   chan struct{} // one element for each connection that is being established or waits
	conns   chan struct{} // one element for each connection
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
		select {
		case l.conns <- struct{}{}:
			l.running.Go(func() { l.take(req) })
		default:
			req.Reject(nil)
			<-l.slots
		}
	}
}

// acceptTimeout limits how long a peer may take to confirm.
const acceptTimeout = 30 * time.Second

// take establishes a connection and hands it to Accept.
func (l *Listener) take(req *cm.Request) {
	defer func() { <-l.slots }()
	s := setup{opt: l.opt, server: true, released: func() { <-l.conns }}
	ctx, cancel := context.WithTimeout(l.ctx, acceptTimeout)
	defer cancel()
	inner, err := req.Accept(ctx, cm.WithSetup(s.run))
	c, err := s.finish(inner, err)
	if err != nil { // of the peer: it went away
		s.released()
		return
	}
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		c.Close()
	}
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
		left := time.Until(deadline)
		if left <= 0 {
			return nil, l.opError("accept", os.ErrDeadlineExceeded)
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		expired = timer.C
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
