// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults of ListenOptions.
const (
	DefaultBacklog  = 128
	DefaultMaxConns = 256
)

// ListenOptions tune a listener.
type ListenOptions struct {
	Options

	Backlog  int // connections that may wait for Accept or negotiate; default DefaultBacklog
	MaxConns int // connections at once, those that wait included; further ones are rejected; default DefaultMaxConns

	// Allow says whether a peer may connect; nil: everybody may. Nothing proves that an address is the peer's own.
	Allow func(peer netip.AddrPort) bool

	// Log gets connections that were rejected or did not come about. By default nothing is logged.
	Log *slog.Logger
}

// Listener accepts connections. A connection has negotiated before Accept returns it.
type Listener struct {
	inner *cm.Listener
	opt   ListenOptions
	addr  *net.TCPAddr

	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	slots   chan struct{} // one element for each connection that is being established or waits
	conns   chan struct{} // one element for each connection
	ready   chan *Conn
	once    sync.Once
}

// Listen listens at "host:port", or at "host" and the port of [DefaultPort]. The host is the device's address, a name
// of it, or empty. Port 0 stands for any free port. When ctx ends, so does the look-up of a name; the listener stays.
func Listen(ctx context.Context, dev *verbs.Device, address string, o ListenOptions) (*Listener, error) {
	l, err := listen(ctx, dev, address, o)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "smbdirect", Err: err}
	}
	return l, nil
}

func listen(ctx context.Context, dev *verbs.Device, address string, o ListenOptions) (l *Listener, err error) {
	if o.Options, err = o.Options.withDefaults(dev, DefaultNegotiateAccept); err != nil {
		return nil, err
	}
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	inner, err := cm.Listen(ctx, dev, withPort(address, DefaultPort(dev)), cm.WithBacklog(o.Backlog))
	if err != nil {
		return nil, err
	}
	l = &Listener{inner: inner, opt: o, addr: net.TCPAddrFromAddrPort(inner.Addr()), ready: make(chan *Conn),
		slots: make(chan struct{}, o.Backlog), conns: make(chan struct{}, o.MaxConns)}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.running.Add(1)
	go l.serve()
	return l, nil
}

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
		if why := l.admit(req.PeerAddr()); why != "" {
			l.opt.Log.Warn("rejected a connection", "peer", req.PeerAddr(), "reason", why)
			req.Reject(nil)
			<-l.slots
			continue
		}
		l.running.Go(func() { l.take(req) })
	}
}

// admit counts a connection, or returns why there is none.
func (l *Listener) admit(peer netip.AddrPort) (why string) {
	if l.opt.Allow != nil && !l.opt.Allow(peer) {
		return "the peer is not allowed to connect"
	}
	select {
	case l.conns <- struct{}{}:
		return ""
	default:
		return "too many connections"
	}
}

// acceptTimeout limits how long a peer may take to confirm.
const acceptTimeout = 30 * time.Second

// take establishes a connection and hands it to Accept.
func (l *Listener) take(req *cm.Request) {
	defer func() { <-l.slots }()
	s := setup{opt: l.opt.Options, accepts: true, request: req.Param().PrivateData, released: func() { <-l.conns }}
	ctx, cancel := context.WithTimeout(l.ctx, acceptTimeout)
	inner, err := req.Accept(ctx, cm.WithSetup(s.run))
	cancel()
	c, err := s.finish(l.ctx, inner, err)
	if err != nil {
		l.opt.Log.Warn("a connection did not come about", "peer", req.PeerAddr(), "error", err)
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
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	var err error
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		err = context.Cause(l.ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, &net.OpError{Op: "accept", Net: "smbdirect", Addr: l.addr, Err: err}
}

// Addr returns the address and port that peers dial, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close stops listening. Connections that Accept has returned stay.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		l.cancel(net.ErrClosed)
		err = l.inner.Close()
		l.running.Wait()
	})
	if err != nil {
		return &net.OpError{Op: "close", Net: "smbdirect", Addr: l.addr, Err: err}
	}
	return nil
}
