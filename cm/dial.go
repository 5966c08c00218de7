// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Resolve finds the address of "host:port" that dev can reach: one of its own family. The host may
// be empty, for the device's own address. The port is a number. If there is no such address the
// error is ErrNoAddr, around the resolver's *net.DNSError.
func Resolve(ctx context.Context, dev *verbs.Device, address string) (netip.AddrPort, error) {
	const op = "resolve_addr"
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, opErr(op, verbs.ErrInvalid, "%q is not host:port: %v", address, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.AddrPort{}, opErr(op, verbs.ErrInvalid, "%q: the port is a number from 0 to 65535", address)
	}
	gids, err := dev.GIDs(1)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(gids) == 0 {
		return netip.AddrPort{}, opErr(op, verbs.ErrNotSupported, "%s has no address", dev.Name())
	}
	addrs := addrsOf(driver.DeviceOf(dev), gids)
	if host == "" {
		return netip.AddrPortFrom(choose(addrs, netip.Addr{}, netip.Addr{}), uint16(port)), nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a, uint16(port)), nil
	}
	network := "ip6"
	if slices.ContainsFunc(addrs, netip.Addr.Is4) {
		network = "ip4"
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.Is4() && !a.IsLinkLocalUnicast() }) {
			network = "ip"
		}
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	switch {
	case ctx.Err() != nil:
		return netip.AddrPort{}, ctx.Err()
	case err != nil:
		return netip.AddrPort{}, &verbs.OpError{Op: op, Err: fmt.Errorf("%w: %s: %w", ErrNoAddr, address, err)}
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(port)), nil
}

// Dial connects to the listener at "host:port". The error is a [*RejectError] if the peer rejected
// the connection, ErrTimeout if it did not answer, ErrNoAddr if there is no such address or no
// route to it, and ctx.Err() as soon as ctx ends.
func Dial(ctx context.Context, dev *verbs.Device, address string, opts ...Option) (*Conn, error) {
	o := newOptions(opts)
	limit, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	c, err := dial(limit, dev, address, o)
	return c, timedOut(ctx, err, address, o)
}

func dial(ctx context.Context, dev *verbs.Device, address string, o *options) (*Conn, error) {
	to, err := Resolve(ctx, dev, address)
	if err != nil {
		return nil, err
	}
	id, err := NewID(NewEventChannel(), dev, TCP)
	if err != nil {
		return nil, err
	}
	return dialID(ctx, id, to, o)
}

// DialID is Dial with an id that the program has created, and perhaps bound to an address and port.
// The connection owns the id from then on. If Dial fails the id is closed.
func DialID(ctx context.Context, id *ID, to netip.AddrPort, opts ...Option) (*Conn, error) {
	o := newOptions(opts)
	limit, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	c, err := dialID(limit, id, to, o)
	return c, timedOut(ctx, err, to.String(), o)
}

func dialID(ctx context.Context, id *ID, to netip.AddrPort, o *options) (*Conn, error) {
	events := NewEventChannel()
	if err := id.Migrate(events); err != nil {
		id.Close()
		return nil, err
	}
	c, err := connect(ctx, id, events, to, o)
	if err != nil {
		c.drop()
		return nil, err
	}
	return c, nil
}

// timedOut names the address in the error of an attempt that was given up, because ctx, the
// program's context, ended, or because it took longer than the options allow.
func timedOut(ctx context.Context, err error, address string, o *options) error {
	switch {
	case err == nil:
	case err == ctx.Err():
		return fmt.Errorf("cm: %s: %w", address, err)
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return opErr("connect", ErrTimeout, "%s: after %v", address, o.timeout)
	}
	return err
}

// connect brings an id to an established connection. The Conn is never nil.
func connect(ctx context.Context, id *ID, events *EventChannel, to netip.AddrPort, o *options) (*Conn, error) {
	c := &Conn{id: id}
	if err := ctx.Err(); err != nil { // or the answer of a fast peer would count
		return c, err
	}
	left := time.Duration(0) // no timeout of its own
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	if err := id.tune(o); err != nil {
		return c, err
	}
	if err := id.ResolveAddr(netip.AddrPort{}, to, left); err != nil {
		return c, err
	}
	if _, err := next(ctx, events, AddrResolved); err != nil {
		return c, err
	}
	if err := id.ResolveRoute(left); err != nil {
		return c, err
	}
	if _, err := next(ctx, events, RouteResolved); err != nil {
		return c, err
	}
	param := o.param
	if err := c.setUp(o, &param); err != nil {
		return c, err
	}
	if err := id.Connect(&param); err != nil {
		return c, err
	}
	e, err := next(ctx, events, Established)
	if err != nil {
		return c, err
	}
	return c, c.begin(e)
}

// tune sets the id's options.
func (id *ID) tune(o *options) error {
	if o.tos != 0 {
		if err := id.SetTOS(o.tos); err != nil {
			return err
		}
	}
	if o.ackTime != 0 {
		return id.SetAckTimeout(o.ackTime)
	}
	return nil
}

// next waits for an event that must have the given type.
func next(ctx context.Context, events *EventChannel, want EventType) (*Event, error) {
	e, err := events.Get(ctx)
	switch {
	case err != nil:
		return nil, err
	case e.Type == want:
		return e, nil
	case e.Err != nil:
		return nil, e.Err
	}
	return nil, fmt.Errorf("cm: waiting for %q: %w: %v", want, ErrDisconnected, e.Type)
}
