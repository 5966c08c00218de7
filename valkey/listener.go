// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"net"
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

	// MaxConns is how many connections there may be at once, including connections that wait for Accept. Further ones
	// are rejected. Each may take as much memory as its buffers. Default DefaultMaxConns, which is as many clients as
	// Valkey has.
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
	a := cm.NewAcceptor(inner, cm.AcceptorConfig[*Conn]{Backlog: backlog, MaxConns: most,
		Setup: func(ctx context.Context, r *cm.Request, closed func()) (*Conn, error) {
			s := setup{opt: o, server: true, released: closed}
			return s.finish(r.Accept(ctx, cm.WithSetup(s.run)))
		}})
	return &Listener{acceptor: a, addr: net.TCPAddrFromAddrPort(inner.Addr())}, nil
}

// Listener accepts connections: a net.Listener. As with TCP, a connection is established before
// Accept returns it.
type Listener struct {
	acceptor *cm.Acceptor[*Conn]
	addr     *net.TCPAddr
}

var _ net.Listener = (*Listener)(nil)

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
	c, err := l.acceptor.Accept(context.Background())
	return c, l.opError("accept", err)
}

// SetDeadline sets when Accept gives up; the zero time: never.
func (l *Listener) SetDeadline(t time.Time) error {
	l.acceptor.SetDeadline(t)
	return nil
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
	return &net.OpError{Op: op, Net: "rdma", Addr: l.addr, Err: netError(err)}
}
