// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrNoFabric is wrapped by errors that say that no fabric runs under a name.
var ErrNoFabric = errors.New("infiniband: no fabric runs here")

// View returns what the fabric of a name is now, which another process of the user runs.
func View(name string) (*FabricView, error) {
	v := new(FabricView)
	return v, query(name, hello{View: true}, kindView, v)
}

// Route returns the way of packets on the fabric of a name, as [Fabric.Route] does.
func Route(name string, from, to End) (hops []End, arrives bool, err error) {
	var r route
	err = query(name, hello{Route: &ends{from, to}}, kindRoute, &r)
	return r.Hops, r.Arrives, err
}

// query asks a fabric's process for something that needs no adapter.
func query(name string, h hello, want messageKind, v any) error {
	c, err := dialLocal(name)
	if err != nil {
		return err
	}
	defer c.Close()
	return exchangeHello(c, newReader(c), h, want, v)
}

// exchangeHello exchanges the first messages with a fabric's process.
func exchangeHello(c net.Conn, r *reader, h hello, want messageKind, v any) error {
	c.SetDeadline(time.Now().Add(callTimeout))
	defer c.SetDeadline(time.Time{})
	h.Version = protocolVersion
	if _, err := c.Write(appendMessage(nil, kindHello, h)); err != nil {
		return fmt.Errorf("infiniband: the fabric's process: %w", err)
	}
	k, b, err := r.next()
	switch {
	case err != nil:
		return fmt.Errorf("infiniband: the fabric's process: %w", err)
	case k == kindRefused:
		return refusedError(b)
	case k != want:
		return errMessage
	}
	return decode(b, v)
}
