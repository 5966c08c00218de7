// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/core/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/system/ibsim"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// ServeIBSim lets programs that use libumad2sim work on the fabric, such as OpenSM and the diagnostic
// tools, until ctx ends: name is what IBSIM_SOCKNAME says, empty: "sim". Any program of the host can
// do that: the names of such sockets have no permissions.
func (f *Fabric) ServeIBSim(ctx context.Context, name string) error {
	if name == "" {
		name = ibsim.DefaultName
	}
	s, err := ibsim.Serve(name, simSubnet{f.running})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { s.Close() })
	return nil
}

// simSubnet is the fabric for clients of libumad2sim.
type simSubnet struct{ running *fabric.Fabric }

// simHost is a client's access to an adapter: to its first port.
type simHost struct {
	seat *fabric.Seat
	fabric.Waiter
	receive func(*ibsim.Datagram)
	done    chan struct{}
}

const simPort = 1

// Attach gives a client a seat.
func (s simSubnet) Attach(node string, receive func(*ibsim.Datagram)) (ibsim.Host, error) {
	h := &simHost{Waiter: s.running.NewWaiter(), receive: receive, done: make(chan struct{})}
	seat, err := s.running.Sit(node, h)
	if err != nil {
		return nil, err
	}
	h.seat = seat
	go h.run()
	return h, nil
}

// Changed is not told to clients: they ask.
func (h *simHost) Changed(int, ...verbs.EventType) {}

// run passes on what comes.
func (h *simHost) run() {
	defer close(h.done)
	var got [16]fabric.Arrival
	something := h.seat.Ready
	for h.Wait(something) == nil {
		n, err := h.seat.Receive(got[:])
		if err != nil {
			return
		}
		for _, a := range got[:n] {
			if d, b, ok := link.ReadMAD(a.Packet); ok {
				m := ibsim.Datagram{SLID: d.SLID, DLID: d.DLID, SQP: d.Source, DQP: d.Dest, MAD: [mad.Size]byte(b)}
				h.receive(&m)
			}
		}
		h.seat.Release(got[:n])
	}
}

func (h *simHost) Node() string { return h.seat.Name() }

func (h *simHost) NodeInfo() [64]byte {
	b, _ := h.seat.Attribute(simPort, smp.AttrNodeInfo, 0) // every node has one
	return b
}

// PortInfo returns that of the client's port for 0, and zeros for a port that is not there.
func (h *simHost) PortInfo(port uint8) [64]byte {
	if port == 0 {
		port = simPort
	}
	b, _ := h.seat.Attribute(int(port), smp.AttrPortInfo, uint32(port))
	return b
}

func (h *simHost) Port() (lid uint16, state uint8) {
	i := h.seat.Info(simPort)
	return i.LID, uint8(i.State)
}

func (h *simHost) GID() ib.GID         { return h.seat.Info(simPort).GIDs[0] }
func (h *simHost) PKeys() []ib.PKey    { return h.seat.Info(simPort).PKeys }
func (h *simHost) SetSM(on bool) error { return h.seat.SetSM(on) }
func (h *simHost) Tag() uint16         { return uint16(h.seat.Slot()) << (16 - steer.Bits) }

// Serve says whether requests of a class come here.
func (h *simHost) Serve(class mad.Class, on bool) { h.seat.Serve(uint8(class), on) }

// Close gives the seat up.
func (h *simHost) Close() {
	h.Waiter.Close()
	<-h.done
	h.seat.Close()
}

// Send sends a datagram.
func (h *simHost) Send(m *ibsim.Datagram) error {
	i := h.seat.Info(simPort)
	d := link.Datagram{SLID: i.LID, DLID: m.DLID, Source: m.SQP & 1, Dest: m.DQP, PKey: ib.DefaultPKey}
	if m.DLID == permissiveLID {
		d.SLID = permissiveLID
	}
	if m.MAD[1] == uint8(mad.ClassSubnet) || m.MAD[1] == uint8(mad.ClassSubnetDirected) {
		d.Source, d.Dest = ib.QP0, ib.QP0
	} else {
		d.Source, d.QKey = ib.QP1, ib.QKeyGSI
		if d.Dest == ib.QP0 {
			d.Dest = ib.QP1
		}
	}
	if err := h.seat.SendMAD(simPort, d, m.MAD[:]); err != nil {
		return fmt.Errorf("ibsim: %w", err)
	}
	return nil
}
