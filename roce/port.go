// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// port carries packets over a UDP socket.
type port struct {
	sock  *netio.Socket
	local netip.AddrPort
	link  link
	watch *linkwatch.Watch // nil: another lane's port has it
	sender
	receiver
	sharing
	queues netio.Queues
	trace  *trace.Writer
}

// route is the path to one peer.
type route struct {
	port   *port
	to     netip.AddrPort
	key    ibta.PathKey
	pseudo ib.PseudoHeader // of the packets to the peer
	sock   *peerSocket     // nil: packets leave through the receiving socket

	ttl, tos uint8 // 0: the system's default
}

// init prepares a port that has its socket.
func (p *port) init() {
	f := p.sock.Features()
	p.sender.init(p.sock)
	p.receiver.init(p.local, f)
	slot, _ := p.Prefix()
	p.slot = int(slot)
}

// Ports: an address is one port.
func (p *port) Ports() int { return 1 }

// Info returns the port's attributes and its tables, which have one entry each.
func (p *port) Info(int) softdev.PortInfo {
	mtu := p.watch.MTU()
	return softdev.PortInfo{
		PortAttr: verbs.PortAttr{State: p.watch.PortState(), Link: verbs.LinkEthernet, NetDev: p.link.name,
			MaxMTU: verbs.MTU4096, ActiveMTU: pathMTU(mtu), LinkMTU: mtu, SpeedMbps: p.link.speed},
		GIDTable: []verbs.GIDEntry{{Index: 0, GID: ib.GIDFromAddr(p.local.Addr()), Type: verbs.GIDRoCEv2,
			NetDev: p.link.name}},
		PKeyTable: softdev.OnePartition,
	}
}

// Follow calls changed when the address or its interface goes away or comes back, and when the
// interface's MTU changes.
func (p *port) Follow(changed func(port int, events ...verbs.EventType)) {
	p.watch.Follow(func(e verbs.EventType) { changed(1, e) }, func() { changed(1) })
}

// CheckRoute reports whether the system has a route to an address.
func (p *port) CheckRoute(from, to netip.Addr) error {
	return linkwatch.CheckRoute(p.link.name, from, to)
}

// Limits returns the limits of one send, and of the bytes in flight to one peer. The peer's
// socket buffer is assumed to be as large as ours, half of which is the kernel's own overhead.
func (p *port) Limits() ibta.Limits {
	f := p.sock.Features()
	return ibta.Limits{MaxPackets: f.MaxSegments, MaxBytes: netio.MaxPayload, Window: p.window(),
		Overhead: packetOverhead, LinkOverhead: linkOverhead, SteeringBits: steer.Bits}
}

const (
	// maxWindow keeps the data in flight in the processors' caches.
	maxWindow = 1 << 20
	// packetOverhead is the space that a packet takes in a socket buffer beyond its payload.
	packetOverhead = 192
	// linkOverhead is the room that a packet takes of a link: Ethernet with FCS, preamble and gap, IPv4, UDP, BTH,
	// ICRC.
	linkOverhead = 14 + 4 + 8 + 12 + 20 + 8 + ib.BTHLen + ib.ICRCLen
)

func (p *port) window() int { return min(p.sock.Features().RecvBuffer/4, maxWindow) }

// Resolve resolves a GID to a path.
func (p *port) Resolve(attr *verbs.AHAttr) (ibta.Path, error) {
	bad := func(format string, a ...any) (ibta.Path, error) {
		return nil, &verbs.OpError{Op: "resolve_address", Err: verbs.ErrInvalid, Detail: fmt.Sprintf(format, a...)}
	}
	if attr.SGIDIndex != 0 {
		return bad("SGIDIndex %d: the GID table has row 0 only", attr.SGIDIndex)
	}
	if attr.Port > 1 {
		return bad("Port %d: there is port 1 only", attr.Port)
	}
	to := attr.DGID.Addr()
	if to.IsUnspecified() {
		return bad("DGID is not set")
	}
	if to.Is4() != p.local.Addr().Is4() {
		return bad("DGID %v and this device's address %v are not both IPv4 or both IPv6", to, p.local.Addr())
	}
	if to.IsLinkLocalUnicast() && to.Is6() {
		to = to.WithZone(p.link.name)
	}
	dst := netip.AddrPortFrom(to, ib.UDPPort)
	return &route{port: p, to: dst, key: keyOf(to), pseudo: ib.NewPseudoHeader(p.local, dst, true), ttl: attr.HopLimit,
		tos: attr.TrafficClass}, nil
}

// keyOf tells peers apart by their addresses: any of their ports may send.
func keyOf(a netip.Addr) ibta.PathKey { return ibta.PathKey{GID: ib.GIDFromAddr(a), Port: 1} }

// Key returns the key that tells the peer from others.
func (r *route) Key() ibta.PathKey { return r.key }

// Full asks the system, which knows the socket buffers of peers on the same host. A full window
// takes at most a quarter of a buffer.
func (r *route) Full() bool {
	used, ok := r.port.queues.Received(r.port.local, r.to)
	return ok && used >= 2*r.port.window()
}

// Holds asks the system, which knows its own queues, and the socket buffers of peers on the same host.
func (r *route) Holds() bool {
	if r.port.sock.Unsent() > 0 || r.sock != nil && r.sock.sock.Unsent() > 0 {
		return true
	}
	unread, ok := r.port.queues.Received(r.port.local, r.to)
	return ok && unread > 0
}

// Refused asks the host whether anybody receives at its RoCEv2 port.
func (p *port) Refused(ctx context.Context, to ibta.Path) error {
	host := to.(*route).to
	return p.sock.Refused(ctx, host, func(from netip.AddrPort) []byte { return question(from, host) })
}

// WantHeaders makes arrivals carry the fields of a GRH.
func (p *port) WantHeaders() { p.sock.RecvHeaders(true) } // if it fails, the GRH has defaults

func (p *port) JoinGroup(_ int, gid verbs.GID, _ uint16) error  { return p.sock.JoinGroup(gid.Addr()) }
func (p *port) LeaveGroup(_ int, gid verbs.GID, _ uint16) error { return p.sock.LeaveGroup(gid.Addr()) }

func (p *port) Wait(writable bool) error {
	if writable {
		return p.sock.WaitWritable()
	}
	return p.sock.Wait()
}

// Pollable reports whether the socket is.
func (p *port) Pollable() bool { return p.sock.Pollable() }

// BeginWait is Wait up to where it sleeps.
func (p *port) BeginWait(writable bool, at *driver.PollSet) bool {
	return p.sock.BeginWait(writable, (*pollwait.Set)(at))
}

// EndWait ends the wait that BeginWait began.
func (p *port) EndWait(readable bool) { p.sock.EndWait(readable) }

// Park waits until the socket receives a packet.
func (p *port) Park(d time.Duration)    { p.sock.Park(d) }
func (p *port) CanPark() bool           { return p.sock.CanPark() }
func (p *port) SetDeadline(t time.Time) { p.sock.SetDeadline(t) }
func (p *port) Wake()                   { p.sock.Wake() }

// Free frees the socket's descriptors.
func (p *port) Free() { p.sock.Free() }

// Close stops raising events, and closes the socket before it gives up the slot among the processes
// that share the address.
func (p *port) Close() error {
	if p.watch != nil {
		p.watch.Close()
	}
	err := p.sock.Close()
	p.queues.Close()
	if p.group != nil {
		p.group.Close()
	}
	return err
}
