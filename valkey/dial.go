// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"net"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Dial connects to the server at "host:port".
func Dial(ctx context.Context, dev *verbs.Device, address string) (*Conn, error) {
	return (&Dialer{Device: dev}).dial(ctx, address)
}

// Dialer dials with options. Its methods can be used like the methods of package net's Dialer, as clients such as
// go-redis take them.
type Dialer struct {
	Device  *verbs.Device
	Options Options

	// Timeout limits how long dialing takes, in addition to the context. The default is
	// cm.DefaultTimeout.
	Timeout time.Duration
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to "host:port". The network is "rdma", or a TCP network, which means the same:
// clients say "tcp" when they mean an address and a port.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	switch network {
	case "rdma", "tcp", "tcp4", "tcp6":
	default:
		return nil, &net.OpError{Op: "dial", Net: network, Err: net.UnknownNetworkError(network)}
	}
	c, err := d.dial(ctx, address)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, address string) (*Conn, error) {
	o, err := d.Options.withDefaults(d.Device)
	var c *Conn
	if err == nil {
		s := setup{opt: o, released: func() {}}
		opts := []cm.Option{cm.WithSetup(s.run)}
		if d.Timeout > 0 {
			opts = append(opts, cm.WithTimeout(d.Timeout))
		}
		var l *cm.Conn
		l, err = cm.Dial(ctx, d.Device, address, opts...)
		c, err = s.finish(l, err)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "rdma", Err: netError(err)}
	}
	return c, nil
}

// setup creates the endpoint of a connection that is being established.
type setup struct {
	opt      Options
	server   bool
	released func()
	ep       *endpoint
}

// run is the function for cm.WithSetup.
func (s *setup) run(id *cm.ID, p *cm.ConnParam) (err error) {
	s.undo() // from an attempt at another address
	if s.ep, err = newEndpoint(id.Device(), s.opt, id.CreateQP); err != nil {
		s.ep = nil
		return err
	}
	if err := s.ep.postAll(); err != nil {
		return err
	}
	// No READs or atomics. Valkey's server asks for no retries when it has no receive posted, which
	// happens: nothing counts them.
	p.ResponderResources, p.InitiatorDepth = 0, 0
	p.RetryCount, p.RNRRetryCount = 7, 7
	return id.SetRNRRetry(7)
}

// undo frees the endpoint once the queue pair is gone with its id.
func (s *setup) undo() {
	if s.ep != nil {
		s.ep.close()
		s.ep = nil
	}
}

// finish creates the Conn of a connection that was established, or not.
func (s *setup) finish(l *cm.Conn, err error) (*Conn, error) {
	if err == nil {
		var c *Conn
		if c, err = newConn(s.ep, l, s.server, s.released); err == nil {
			return c, nil
		}
		l.Close()
	}
	s.undo()
	return nil, err
}
