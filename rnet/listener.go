// SPDX-License-Identifier: Apache-2.0

package rnet

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
	Backlog int // connections that may wait for Accept; default cm.DefaultBacklog
	Options Options
}

// Listen is the function [Listen], with options.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	o, err := lc.Options.withDefaults(lc.Device)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Err: netError(err)}
	}
	backlog := lc.Backlog
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	inner, err := cm.Listen(ctx, lc.Device, address, cm.WithBacklog(backlog))
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Err: netError(err)}
	}
	a := cm.NewAcceptor(inner, cm.AcceptorConfig[*Conn]{
		Backlog: backlog,
		Setup: func(ctx context.Context, r *cm.Request, _ func()) (*Conn, error) {
			return AcceptRequest(ctx, r, &o)
		},
	})
	return &Listener{acceptor: a, addr: net.TCPAddrFromAddrPort(inner.Addr())}, nil
}

// Listener accepts stream connections: a net.Listener. As with TCP, a connection is established
// before Accept returns it. The backlog limits how many wait.
type Listener struct {
	acceptor *cm.Acceptor[*Conn]
	addr     *net.TCPAddr
}

var _ net.Listener = (*Listener)(nil)

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err // not a nil *Conn
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
