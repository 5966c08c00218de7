// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

type info = fabric.Info

// adapter is a program's attachment to an adapter of a fabric, in this process or another.
type adapter interface {
	Name() string
	GUID() uint64
	Slot() int
	Ports() int
	Info(port int) *info

	Alloc(packets []*link.Packet, sizes []int) error
	Discard(packets []*link.Packet)
	Full() bool
	Send(port int, packets []*link.Packet) error
	Ready() bool
	Receive(buf []fabric.Arrival) (int, error)
	Release(got []fabric.Arrival)

	Claim(id, mask uint64) error
	Unclaim(id, mask uint64)
	Serve(class uint8, yes bool)
	Violated(port int, t mad.Trap, d mad.KeyDetails)
	Addr() netip.Addr
	Neighbor(a netip.Addr) (ib.GID, bool)
	Losses() (n uint64, known bool)
	RefreshLosses()
	Dropped(n uint64)
	Close()
}

// port is all ports of an adapter, as a device sees them.
type port struct {
	adapter
	fabric.Waiter
	parker softdev.Parker     // nil: programs that poll cannot sleep at it
	poller softdev.PollWaiter // nil: threads cannot sleep at it by themselves
	ends   [2]func() bool     // conditions that end a wait: packets; packets or room to send
	follow atomic.Pointer[func(port int, events ...verbs.EventType)]
	sender
	receiver
	tracer
}

// maxWindow is how many bytes may be in flight to one peer. It keeps data in the processors' caches; it is the
// fabric's credits that protect buffers.
const maxWindow = 256 << 10

// Limits returns the limits of one batch.
func (p *port) Limits() ibta.Limits {
	return ibta.Limits{MaxPackets: maxBatch, MaxBytes: 64 << 10, Window: maxWindow, Overhead: packetOverhead,
		LinkOverhead: linkOverhead}
}

const (
	// packetOverhead is the space that a packet takes in a receive buffer beyond its payload: buffers are counted in
	// blocks.
	packetOverhead = 64
	// linkOverhead is the room that a packet takes of a link: LRH, BTH, ICRC, VCRC, delimiters (section 7.8).
	linkOverhead = ib.LRHLen + ib.BTHLen + ib.ICRCLen + ib.VCRCLen + 2
)

// Prefix returns the attachment's slot, the top bits of queue pair numbers and ids, by which packets are steered.
func (p *port) Prefix() (slot uint32, bits int) { return uint32(p.Slot()), steer.Bits }

// Release gives up service ids.
func (p *port) Release(service, mask uint64) { p.Unclaim(service, mask) }

// Connect and Disconnect have nothing to do: links connect ports, not peers.
func (p *port) Connect(ibta.Path)    {}
func (p *port) Disconnect(ibta.Path) {}

// WantHeaders has nothing to do: the GRH of a packet is always available.
func (p *port) WantHeaders() {}

// JoinGroup and LeaveGroup have nothing to do: all programs at the adapter receive the packets of its groups.
// Programs join at the subnet administrator (section 15.2.5.17).
func (p *port) JoinGroup(int, verbs.GID, uint16) error  { return nil }
func (p *port) LeaveGroup(int, verbs.GID, uint16) error { return nil }

// Info returns the attributes and tables of a port.
func (p *port) Info(num int) softdev.PortInfo {
	i := p.adapter.Info(num)
	table := make([]verbs.GIDEntry, len(i.GIDs))
	for row, g := range i.GIDs {
		table[row] = verbs.GIDEntry{Index: row, GID: g, Type: verbs.GIDInfiniBand}
	}
	return softdev.PortInfo{
		PortAttr: verbs.PortAttr{State: stateOf(i), Link: verbs.LinkInfiniBand, MaxMTU: verbs.MTU(i.MaxMTU),
			ActiveMTU: verbs.MTU(i.MTU),
			LID:       i.LID, LMC: i.LMC, SMLID: i.SMLID, SL: i.SMSL, SpeedMbps: i.Mbps,
			Subnet: verbs.SubnetPort{PhysState: uint8(i.Physical), Width: uint8(i.Width), Speed: uint8(i.Speed),
				VLs:           smp.VLCode(int(i.VLs)),
				SubnetTimeout: i.SubnetTimeout, CapMask: i.CapMask}},
		GIDTable: table, PKeyTable: i.PKeys,
	}
}

func stateOf(i *info) verbs.PortState {
	switch i.State {
	case node.Active:
		return verbs.PortActive
	case node.Armed:
		return verbs.PortArmed
	case node.Initialize:
		return verbs.PortInit
	}
	return verbs.PortDown
}

// Follow sets the function that is called when a port changes.
func (p *port) Follow(changed func(port int, events ...verbs.EventType)) { p.follow.Store(&changed) }

// Changed implements fabric.Driver.
func (p *port) Changed(num int, events ...verbs.EventType) {
	if changed := p.follow.Load(); changed != nil {
		(*changed)(num, events...)
	}
}

// Wait waits until packets come, and with writable until the ports have room.
func (p *port) Wait(writable bool) error {
	if writable {
		return p.Waiter.Wait(p.ends[1])
	}
	return p.Waiter.Wait(p.ends[0])
}

// CanPark and Park implement softdev.Parker.
func (p *port) CanPark() bool        { return p.parker != nil && p.parker.CanPark() }
func (p *port) Park(d time.Duration) { p.parker.Park(d) }

// Pollable, BeginWait and EndWait implement softdev.PollWaiter.
func (p *port) Pollable() bool { return p.poller != nil && p.poller.Pollable() }

func (p *port) BeginWait(writable bool, at *driver.PollSet) bool {
	end := p.ends[0]
	if writable {
		end = p.ends[1]
	}
	return !end() && p.poller.BeginWait(writable, at)
}

func (p *port) EndWait(readable bool) { p.poller.EndWait(readable) }

// Close detaches from the adapter.
func (p *port) Close() error {
	p.adapter.Close()
	p.Waiter.Close()
	return nil
}
