// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/system/ibsim"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// ServeIBSim serves programs that use libumad2sim, such as OpenSM and the diagnostic tools, until ctx ends. name is
// the value of their IBSIM_SOCKNAME; empty: "sim". Any user of the host can connect, as abstract sockets have no
// permissions.
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

// simSubnet is the fabric as ibsim.Subnet.
type simSubnet struct{ running *fabric.Fabric }

// simHost is a client's attachment to the first port of an adapter.
type simHost struct {
	attachment *fabric.Attachment
	fabric.Waiter
	receive func(*ibsim.Datagram)
	done    chan struct{}
}

const simPort = 1

// Attach attaches a client to a node.
func (s simSubnet) Attach(node string, receive func(*ibsim.Datagram)) (ibsim.Host, error) {
	h := &simHost{Waiter: s.running.NewWaiter(), receive: receive, done: make(chan struct{})}
	a, err := s.running.Attach(node, h)
	if err != nil {
		return nil, err
	}
	h.attachment = a
	go h.run()
	return h, nil
}

// Changed has nothing to do: clients poll.
func (h *simHost) Changed(int, ...verbs.EventType) {}

// run passes received datagrams to the client.
func (h *simHost) run() {
	defer close(h.done)
	var got [16]fabric.Arrival
	something := h.attachment.Ready
	for h.Wait(something) == nil {
		n, err := h.attachment.Receive(got[:])
		if err != nil {
			return
		}
		for _, a := range got[:n] {
			if d, b, ok := link.ReadMAD(a.Packet); ok {
				m := ibsim.Datagram{SLID: d.SLID, DLID: d.DLID, SQP: d.Source, DQP: d.Dest, MAD: [mad.Size]byte(b)}
				h.receive(&m)
			}
		}
		h.attachment.Release(got[:n])
	}
}

func (h *simHost) Node() string { return h.attachment.Name() }

func (h *simHost) NodeInfo() [64]byte {
	b, _ := h.attachment.Attribute(simPort, smp.AttrNodeInfo, 0) // every node has one
	return b
}

// PortInfo returns the PortInfo of a port, or zeros if there is none; 0 means the client's port.
func (h *simHost) PortInfo(port uint8) [64]byte {
	if port == 0 {
		port = simPort
	}
	b, _ := h.attachment.Attribute(int(port), smp.AttrPortInfo, uint32(port))
	return b
}

func (h *simHost) Port() (lid uint16, state uint8) {
	i := h.attachment.Info(simPort)
	return i.LID, uint8(i.State)
}

func (h *simHost) GID() ib.GID         { return h.attachment.Info(simPort).GIDs[0] }
func (h *simHost) PKeys() []ib.PKey    { return h.attachment.Info(simPort).PKeys }
func (h *simHost) SetSM(on bool) error { return h.attachment.SetSM(on) }
func (h *simHost) Tag() uint16         { return uint16(h.attachment.Slot()) << (16 - steer.Bits) }

// Serve sets whether requests of a class are for the client.
func (h *simHost) Serve(class mad.Class, on bool) { h.attachment.Serve(uint8(class), on) }

// Close detaches the client.
func (h *simHost) Close() {
	h.Waiter.Close()
	<-h.done
	h.attachment.Close()
}

// Send sends a datagram.
func (h *simHost) Send(m *ibsim.Datagram) error {
	i := h.attachment.Info(simPort)
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
	if err := h.attachment.SendMAD(simPort, d, m.MAD[:]); err != nil {
		return fmt.Errorf("ibsim: %w", err)
	}
	return nil
}
