// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"net"
	"strconv"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Dial connects to the server at "host:port", or at "host" and the port of [DefaultPort]. ctx limits how long dialing
// takes, besides cm.DefaultTimeout and Options.Negotiate.
func Dial(ctx context.Context, dev *verbs.Device, address string, o Options) (*Conn, error) {
	c, err := dial(ctx, dev, address, o)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "smbdirect", Err: err}
	}
	return c, nil
}

func dial(ctx context.Context, dev *verbs.Device, address string, o Options) (*Conn, error) {
	o, err := o.withDefaults(dev, DefaultNegotiateDial)
	if err != nil {
		return nil, err
	}
	s := setup{opt: o, released: func() {}}
	link, err := cm.Dial(ctx, dev, withPort(address, DefaultPort(dev)), cm.WithSetup(s.run))
	return s.finish(ctx, link, err)
}

// withPort returns an address with a port.
func withPort(address string, port uint16) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	if n := len(address); n > 1 && address[0] == '[' && address[n-1] == ']' {
		address = address[1 : n-1]
	}
	return net.JoinHostPort(address, strconv.Itoa(int(port)))
}
