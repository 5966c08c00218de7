// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// AcceptorConfig configures an [Acceptor].
type AcceptorConfig[C io.Closer] struct {
	// Setup accepts a request, with [Request.Accept], and makes its connection one of the protocol. The context ends
	// after Timeout and with the acceptor. The connection calls closed once, when it has been closed. If Setup fails it
	// leaves nothing behind, and does not call closed.
	Setup func(ctx context.Context, r *Request, closed func()) (C, error)

	Timeout  time.Duration // how long Setup may take; default DefaultTimeout
	Backlog  int           // connections that may be in Setup or wait for Accept; default DefaultBacklog
	MaxConns int           // connections at once, including connections in Setup and waiting ones; default: no limit

	// Allow says whether a peer may connect; nil: each may. Nothing proves that an address is the peer's own.
	Allow func(peer netip.AddrPort) bool

	// Log gets requests that were rejected, and connections that were not established. By default nothing is
	// logged.
	Log *slog.Logger
}

// Acceptor accepts the connections of a protocol that runs over a [Conn]. A connection is established
// before Accept returns it, as with TCP. Each is set up in a goroutine of its own, so that a slow peer delays nobody.
type Acceptor[C io.Closer] struct {
	listener *Listener
	conf     AcceptorConfig[C]

	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	backlog chan struct{} // one element for each connection in Setup or waiting for Accept
	conns   chan struct{} // one element for each connection; nil: there is no limit
	ready   chan C

	mu       sync.Mutex
	deadline time.Time
	changed  chan struct{} // closed when deadline changes
	closed   bool
}

// NewAcceptor accepts the requests that arrive at a listener, and owns it from then on. The listener's own backlog
// should be as large.
func NewAcceptor[C io.Closer](l *Listener, conf AcceptorConfig[C]) *Acceptor[C] {
	if conf.Timeout <= 0 {
		conf.Timeout = DefaultTimeout
	}
	if conf.Backlog <= 0 {
		conf.Backlog = DefaultBacklog
	}
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	a := &Acceptor[C]{listener: l, conf: conf, backlog: make(chan struct{}, conf.Backlog), ready: make(chan C),
		changed: make(chan struct{})}
	if conf.MaxConns > 0 {
		a.conns = make(chan struct{}, conf.MaxConns)
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.running.Go(a.serve)
	return a
}

// serve takes requests while there is room for them.
func (a *Acceptor[C]) serve() {
	for {
		select {
		case a.backlog <- struct{}{}:
		case <-a.ctx.Done():
			return
		}
		r, err := a.listener.Next(a.ctx)
		if err != nil {
			a.cancel(err)
			return
		}
		if reason := a.admit(r.PeerAddr()); reason != "" {
			a.conf.Log.Warn("rejected a connection", "peer", r.PeerAddr(), "reason", reason)
			_ = r.Reject(nil) // it fails only if the peer has gone
			<-a.backlog
			continue
		}
		a.running.Go(func() { a.setUp(r) })
	}
}

// admit counts a connection, or returns why it is rejected.
func (a *Acceptor[C]) admit(peer netip.AddrPort) (reason string) {
	if a.conf.Allow != nil && !a.conf.Allow(peer) {
		return "the peer is not allowed to connect"
	}
	if a.conns == nil {
		return ""
	}
	select {
	case a.conns <- struct{}{}:
		return ""
	default:
		return "too many connections"
	}
}

// release ends the count of a connection.
func (a *Acceptor[C]) release() {
	if a.conns != nil {
		<-a.conns
	}
}

// setUp establishes a connection and hands it to Accept.
func (a *Acceptor[C]) setUp(r *Request) {
	defer func() { <-a.backlog }()
	ctx, cancel := context.WithTimeout(a.ctx, a.conf.Timeout)
	c, err := a.conf.Setup(ctx, r, a.release)
	cancel()
	if err != nil {
		a.conf.Log.Warn("a connection was not established", "peer", r.PeerAddr(), "error", err)
		a.release()
		return
	}
	select {
	case a.ready <- c:
	case <-a.ctx.Done():
		c.Close()
	}
}

// Accept returns the next connection. The error is ctx.Err(), os.ErrDeadlineExceeded after the time of
// [Acceptor.SetDeadline], net.ErrClosed after Close, and verbs.ErrClosed when the device has been closed.
func (a *Acceptor[C]) Accept(ctx context.Context) (c C, err error) {
	for {
		a.mu.Lock()
		deadline, changed := a.deadline, a.changed
		a.mu.Unlock()
		c, again, err := a.acceptUntil(ctx, deadline, changed)
		if !again {
			return c, err
		}
	}
}

// acceptUntil is Accept until the deadline changes: then it reports that it has to be called again.
func (a *Acceptor[C]) acceptUntil(ctx context.Context, deadline time.Time, changed <-chan struct{}) (c C, again bool,
	err error) {
	if a.ctx.Err() != nil { // before the deadline: a caller that retries after a timeout would do so forever
		return c, false, context.Cause(a.ctx)
	}
	var expired <-chan time.Time
	if !deadline.IsZero() {
		left := time.Until(deadline)
		if left <= 0 {
			return c, false, os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case c = <-a.ready:
		return c, false, nil
	case <-a.ctx.Done():
		return c, false, context.Cause(a.ctx)
	case <-ctx.Done():
		return c, false, ctx.Err()
	case <-expired:
		return c, false, os.ErrDeadlineExceeded
	case <-changed:
		return c, true, nil
	}
}

// SetDeadline sets when Accept gives up, also where it waits already; the zero time: never.
func (a *Acceptor[C]) SetDeadline(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline = t
	close(a.changed)
	a.changed = make(chan struct{})
}

// Addr returns the address and port that peers dial.
func (a *Acceptor[C]) Addr() netip.AddrPort { return a.listener.Addr() }

// Close stops listening. Connections that Accept has returned stay. A second Close returns net.ErrClosed.
func (a *Acceptor[C]) Close() error {
	a.mu.Lock()
	closed := a.closed
	a.closed = true
	a.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	a.cancel(net.ErrClosed)
	err := a.listener.Close()
	a.running.Wait()
	return err
}
