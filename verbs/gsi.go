// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
)

// MADLen is the length of a management datagram in bytes (IBTA 13.4.2).
const MADLen = 256

// GSI is the general services interface of a device: QP1, over which connection managers
// exchange management datagrams (IBTA 13.5.3). Where several processes share an address,
// a datagram reaches the process that it is for: a request by the service id that a
// process has claimed, everything else by the ids that [GSI.IDs] gave out.
//
// All methods may be called from any goroutine.
type GSI struct {
	object
	dev *Device // keeps it alive
	drv GSIDriver
}

// GSIOpener is a [Driver] that has a QP1.
type GSIOpener interface {
	// OpenGSI returns ErrBusy while it is open already.
	OpenGSI() (GSIDriver, error)
}

// GSIDriver is the general services interface of a driver.
type GSIDriver interface {
	Send(to AHAttr, mad []byte) error
	Recv(ctx context.Context, mad []byte) (n int, from AHAttr, err error)
	Claim(service, mask uint64) error
	Release(service uint64)
	IDs() (base, mask uint32)
	Close() error
}

// GSIRefuser is a [GSIDriver] whose network says where nobody receives.
type GSIRefuser interface {
	Refused(ctx context.Context, to AHAttr) error
}

// OpenGSI gives access to QP1. ErrNotSupported: the device has none; ErrBusy: it is open
// already, it can be so once for each Device.
func (d *Device) OpenGSI() (*GSI, error) {
	const op = "open_gsi"
	o, ok := d.drv.(GSIOpener)
	if !ok {
		return nil, opErr(op, ErrNotSupported, "the device has no QP1")
	}
	g := &GSI{dev: d}
	if err := g.use(op, &d.object); err != nil {
		return nil, err
	}
	var err error
	if g.drv, err = o.OpenGSI(); err != nil {
		g.unuse()
		return nil, wrap(op, err)
	}
	return g, nil
}

// Send sends one management datagram of [MADLen] bytes from QP1 to QP1, with the default
// P_Key. It does not block and keeps nothing of mad. Nothing says whether it arrives.
// ErrQueueFull: the device can take no more now, and the datagram was not sent.
func (g *GSI) Send(to AHAttr, mad []byte) error {
	const op = "send_mad"
	if len(mad) != MADLen {
		return opErr(op, ErrInvalid, fmt.Sprintf("a management datagram has %d bytes, this one %d", MADLen, len(mad)))
	}
	return wrap(op, g.drv.Send(to, mad))
}

// Recv waits for the next management datagram and copies it to mad, which has room for
// [MADLen] bytes. from is what [GSI.Send] needs for an answer. What arrives while nobody
// receives is kept up to a bound, and then dropped and counted. The error is ErrClosed
// once g or the device is closed, or that of the context.
func (g *GSI) Recv(ctx context.Context, mad []byte) (n int, from AHAttr, err error) {
	const op = "recv_mad"
	if len(mad) < MADLen {
		return 0, from, opErr(op, ErrInvalid, fmt.Sprintf("a management datagram has %d bytes, the buffer %d", MADLen, len(mad)))
	}
	n, from, err = g.drv.Recv(ctx, mad)
	if err != nil && err == ctx.Err() {
		return n, from, err
	}
	return n, from, wrap(op, err)
}

// Refused waits until the network says that nobody receives what is sent to an address, and
// returns what it said: syscall.ECONNREFUSED where the host has no device at that address, or
// EHOSTUNREACH or ENETUNREACH. Silence means nothing: then it waits until ctx ends, and returns
// its error. ErrNotSupported: the device does not hear of such things.
func (g *GSI) Refused(ctx context.Context, to AHAttr) error {
	const op = "await_refusal"
	d, ok := g.drv.(GSIRefuser)
	if !ok {
		return opErr(op, ErrNotSupported, "the network of this device does not say it")
	}
	err := d.Refused(ctx, to)
	if err != nil && err == ctx.Err() {
		return err
	}
	return wrap(op, err)
}

// Claim makes requests for the service ids that equal service in the bits of mask come to
// this process; a mask of all ones stands for one id. ErrBusy: one of them is claimed
// already, by this or another process of the address.
func (g *GSI) Claim(service, mask uint64) error {
	return wrap("claim_service", g.drv.Claim(service, mask))
}

// Release gives up what was claimed with the same service. Close releases everything.
func (g *GSI) Release(service uint64) { g.drv.Release(service) }

// IDs says which local communication ids and transaction ids this process may use:
// base | x &^ mask for any x. Answers find their process by them. Where no other process
// can share the address, both are zero.
func (g *GSI) IDs() (base, mask uint32) { return g.drv.IDs() }

// Close ends the access to QP1. A Recv under way returns ErrClosed.
func (g *GSI) Close() error {
	return g.close("close_gsi", func() error { return wrap("close_gsi", g.drv.Close()) })
}
