// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"net"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Dial connects to the listener at "host:port": an rnet.Listener, or a program on rsockets.
func Dial(ctx context.Context, dev *verbs.Device, address string) (*Conn, error) {
	return (&Dialer{Device: dev}).dial(ctx, address)
}

// Dialer dials with options. Its methods can be used like the methods of package net's Dialer:
// http.Transport.DialContext, grpc.WithContextDialer and the like.
type Dialer struct {
	Device  *verbs.Device
	Options Options

	// Timeout limits how long dialing takes, in addition to the context. The default is
	// cm.DefaultTimeout. A host that does not answer at all is given up after about 17 s, when the
	// connection manager's retries are exhausted. Both errors have a Timeout method that returns
	// true.
	Timeout time.Duration
}

// Dial is DialContext without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to "host:port". The network is "rdma", or a TCP network, which means the
// same.
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
	var s setup
	opts := []cm.Option{cm.WithSetup(s.run(d.Device, &d.Options))}
	if d.Timeout > 0 {
		opts = append(opts, cm.WithTimeout(d.Timeout))
	}
	l, err := cm.Dial(ctx, d.Device, address, opts...)
	c, err := s.finish(l, err)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "rdma", Err: netError(err)}
	}
	return c, nil
}

// setup creates the endpoint of a connection that is being established.
type setup struct{ ep *endpoint }

// run is the function for cm.WithSetup.
func (s *setup) run(dev *verbs.Device, opt *Options) func(*cm.ID, *cm.ConnParam) error {
	var o Options
	if opt != nil {
		o = *opt
	}
	return func(id *cm.ID, p *cm.ConnParam) (err error) {
		s.undo() // from an attempt at another address
		if s.ep, err = newEndpoint(dev, o, id.CreateQP); err != nil {
			s.ep = nil
			return err
		}
		if err := s.ep.postReceives(); err != nil {
			return err
		}
		p.PrivateData = s.ep.connData()
		// No READs or atomics. RNR retries are unlimited: the protocol relies on that.
		p.ResponderResources, p.InitiatorDepth = 0, 0
		p.RetryCount, p.RNRRetryCount = 7, 7
		return nil
	}
}

// undo frees the endpoint once the queue pair is gone with its id.
func (s *setup) undo() {
	if s.ep != nil {
		s.ep.close()
		s.ep = nil
	}
}
