// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"log/slog"
	"net"
	"net/netip"

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
	MaxConns int // connections at once, including waiting ones; further ones are rejected; default DefaultMaxConns

	// Allow says whether a peer may connect; nil: everybody may. Nothing proves that an address is the peer's own.
	Allow func(peer netip.AddrPort) bool

	// Log gets connections that were rejected or did not come about. By default nothing is logged.
	Log *slog.Logger
}

// Listener accepts connections. A connection has negotiated before Accept returns it.
type Listener struct {
	acceptor *cm.Acceptor[*Conn]
	addr     *net.TCPAddr
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

func listen(ctx context.Context, dev *verbs.Device, address string, o ListenOptions) (_ *Listener, err error) {
	if o.Options, err = o.Options.withDefaults(dev, DefaultNegotiateAccept); err != nil {
		return nil, err
	}
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	inner, err := cm.Listen(ctx, dev, withPort(address, DefaultPort(dev)), cm.WithBacklog(o.Backlog))
	if err != nil {
		return nil, err
	}
	a := cm.NewAcceptor(inner, cm.AcceptorConfig[*Conn]{Backlog: o.Backlog, MaxConns: o.MaxConns, Allow: o.Allow,
		Log: o.Log, Timeout: acceptTimeout + o.Negotiate,
		Setup: func(ctx context.Context, r *cm.Request, closed func()) (*Conn, error) {
			s := setup{opt: o.Options, accepts: true, request: r.Param().PrivateData, released: closed}
			link, err := r.Accept(ctx, cm.WithSetup(s.run))
			return s.finish(ctx, link, err)
		}})
	return &Listener{acceptor: a, addr: net.TCPAddrFromAddrPort(inner.Addr())}, nil
}

// acceptTimeout limits how long a peer may take to confirm, before it negotiates.
const acceptTimeout = cm.DefaultTimeout

// Accept returns the next connection.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	c, err := l.acceptor.Accept(ctx)
	return c, l.opError("accept", err)
}

// Addr returns the address and port that peers dial, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close stops listening. Connections that Accept has returned stay.
func (l *Listener) Close() error { return l.opError("close", l.acceptor.Close()) }

// opError returns an error as package net has it; nil stays nil.
func (l *Listener) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: op, Net: "smbdirect", Addr: l.addr, Err: err}
}
