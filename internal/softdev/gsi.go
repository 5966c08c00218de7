// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"errors"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxMADs bounds the management datagrams that wait for Recv. Managers send again what is
// dropped.
const maxMADs = 2048

// gsi is QP1 of a device. Datagrams wait in it under a lock of its own, taken inside the
// device's: whoever receives them does not compete for the data path.
type gsi struct {
	dev   *Device
	psn   ib.PSN     // of the next send; device's lock
	batch ibta.Batch // for sends; device's lock

	mu      sync.Mutex
	arrived queue.Ring[mad]
	closed  bool
	ready   chan struct{} // of capacity 1: look again

	claims claims
}

// mad is a received management datagram.
type mad struct {
	from verbs.GID
	data [verbs.MADLen]byte
}

// OpenGSI gives access to QP1.
func (d *Device) OpenGSI() (verbs.GSIDriver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, verbs.ErrClosed
	case d.gsi != nil:
		return nil, &verbs.OpError{Op: "open_gsi", Err: verbs.ErrBusy, Detail: "a manager has QP1 of this device: close it first"}
	}
	g := &gsi{dev: d, psn: ib.PSN(random32()) & ib.PSNMask, ready: make(chan struct{}, 1)}
	d.gsi = g
	d.manage(true)
	return g, nil
}

// receiveOther takes a packet that is for no queue pair; the device's lock is held.
func (d *Device) receiveOther(p *ib.Packet, from *Arrival) {
	r := ibta.DropNoDestination
	if p.DestQP == ib.QP1 {
		r = d.receiveMAD(p, from)
	}
	if r != ibta.Taken {
		d.engine.Counters.Dropped[r]++
	}
}

func (d *Device) receiveMAD(p *ib.Packet, from *Arrival) ibta.Reason {
	if d.gsi == nil {
		return ibta.DropNoDestination
	}
	if r := ibta.CheckMAD(p, verbs.MADLen); r != ibta.Taken {
		return r
	}
	return d.gsi.put(p, from)
}

func (g *gsi) put(p *ib.Packet, from *Arrival) ibta.Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.arrived.Len() == maxMADs {
		return ibta.DropNoReceive
	}
	m := g.arrived.PushBack()
	m.from = from.Src
	copy(m.data[:], p.Payload)
	g.signal()
	return ibta.Taken
}

// signal wakes one of those who receive.
func (g *gsi) signal() {
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

// Recv waits for the next datagram.
func (g *gsi) Recv(ctx context.Context, b []byte) (int, verbs.AHAttr, error) {
	for {
		n, from, err := g.take(b)
		if n > 0 || err != nil {
			return n, from, err
		}
		select {
		case <-g.ready:
		case <-ctx.Done():
			return 0, verbs.AHAttr{}, ctx.Err()
		}
	}
}

// take copies the oldest datagram to b; zero: there is none.
func (g *gsi) take(b []byte) (n int, from verbs.AHAttr, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.signal() // for others who wait
		return 0, from, verbs.ErrClosed
	}
	if g.arrived.Len() == 0 {
		return 0, from, nil
	}
	m := g.arrived.Front()
	n, from.DGID = copy(b, m.data[:]), m.from
	g.arrived.PopFront()
	if g.arrived.Len() > 0 {
		g.signal()
	}
	return n, from, nil
}

// Send sends a datagram at once.
func (g *gsi) Send(to verbs.AHAttr, b []byte) error {
	d := g.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.gsi != g {
		return verbs.ErrClosed
	}
	route, err := d.port.Resolve(&to)
	if err != nil {
		return err
	}
	g.batch.SetDatagram(&ibta.Vector{Attr: to, Route: route}, &ib.Packet{
		BTH:     ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1, PSN: g.psn},
		DETH:    ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1},
		Payload: b,
	})
	g.psn = g.psn.Next()
	switch err := d.port.Send(&g.batch); {
	case errors.Is(err, ErrAgain):
		return &verbs.OpError{Op: "send_mad", Err: verbs.ErrQueueFull, Detail: "the port can take no more for now: send it again later"}
	case err != nil:
		d.engine.Counters.SendErrors++
		return err
	}
	d.engine.Counters.SentPackets++
	d.engine.Counters.SentBytes += verbs.MADLen
	return nil
}

// Refused waits until the port says that nobody receives at an address.
func (g *gsi) Refused(ctx context.Context, to verbs.AHAttr) error {
	d := g.dev
	r, ok := d.port.(Refuser)
	if !ok {
		return verbs.ErrNotSupported
	}
	route, err := g.resolve(&to)
	if err != nil {
		return err
	}
	return r.Refused(ctx, route)
}

// resolve finds the way to an address, for what goes on without the device's lock.
func (g *gsi) resolve(to *verbs.AHAttr) (route any, err error) {
	d := g.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.gsi != g {
		return nil, verbs.ErrClosed
	}
	return d.port.Resolve(to)
}

// Close ends it.
func (g *gsi) Close() error {
	g.dev.mu.Lock()
	if g.dev.gsi == g {
		g.dev.gsi = nil
		g.dev.manage(false)
	}
	g.dev.mu.Unlock()
	g.end()
	return nil
}

// end makes whoever receives return, and gives up all service ids.
func (g *gsi) end() {
	g.mu.Lock()
	g.closed = true
	g.arrived = queue.Ring[mad]{}
	g.signal()
	g.mu.Unlock()
	g.releaseAll()
}
