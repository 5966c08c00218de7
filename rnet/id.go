// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
)

// DialID is [Dialer.Dial] with an id of package cm that the program has created, and perhaps bound
// to an address and port. The connection owns the id from then on. If DialID fails the id is
// closed. A deadline of ctx replaces the manager's own timeout, cm.DefaultTimeout. A nil opt stands for the defaults.
func DialID(ctx context.Context, id *cm.ID, to netip.AddrPort, opt *Options) (*Conn, error) {
	var s setup
	opts := []cm.Option{cm.WithSetup(s.run(id.Device(), opt))}
	if end, ok := ctx.Deadline(); ok {
		opts = append(opts, cm.WithTimeout(time.Until(end)))
	}
	l, err := cm.DialID(ctx, id, to, opts...)
	c, err := s.finish(l, err)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "rdma", Addr: net.TCPAddrFromAddrPort(to), Err: netError(err)}
	}
	return c, nil
}

// finish creates the Conn of a connection that was dialed.
func (s *setup) finish(l *cm.Conn, err error) (*Conn, error) {
	if err == nil {
		var c *Conn
		if c, err = newConn(s.ep, l, l.Param().PrivateData); err == nil {
			return c, nil
		}
		l.Close()
	}
	s.undo()
	return nil, err
}

// AcceptRequest accepts a request of a cm.Listener, for programs that choose the options, or when
// to answer, for each connection. It waits until the connection is established. A peer that does
// not speak the protocol of rsockets is rejected. A nil opt stands for the defaults.
func AcceptRequest(ctx context.Context, req *cm.Request, opt *Options) (*Conn, error) {
	said := req.Param().PrivateData
	if _, err := newStream(rsocket.Config{SendQueue: 1}, said); err != nil {
		req.Reject(nil)
		return nil, err
	}
	var s setup
	inner, err := req.Accept(ctx, cm.WithSetup(s.run(req.ID().Device(), opt)))
	if err != nil {
		s.undo()
		return nil, err
	}
	c, err := newConn(s.ep, inner, said)
	if err != nil {
		inner.Close()
		s.undo()
	}
	return c, err
}
