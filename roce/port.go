// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/linkwatch"
	"github.com/ramjet-rdma/ramjet/internal/netio"
	"github.com/ramjet-rdma/ramjet/internal/softdev"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// port carries packets over a UDP socket.
type port struct {
	sock  *netio.Socket
	local netip.AddrPort
	link  link
	watch *linkwatch.Watch
	sender
	receiver
	sharing
	queues netio.Queues
	trace  *trace.Writer
}

// route is the way to one peer.
type route struct {
	to   netip.AddrPort
	flow ib.Flow // of what goes there
	way  *way    // nil: it goes by the socket that receives

	ttl, tos uint8 // 0: the system's default
}

// init readies a port that has its socket.
func (p *port) init() {
	f := p.sock.Features()
	p.sender.init(p.sock)
	p.receiver.init(p.local, f)
	p.prefix = ib.QPN(p.Slot())
}

// Attr returns the port's attributes and its GID table, which has one entry.
func (p *port) Attr() (verbs.PortAttr, []verbs.GIDEntry) {
	return verbs.PortAttr{State: p.watch.PortState(), Link: verbs.LinkEthernet, NetDev: p.link.name, MaxMTU: verbs.MTU4096,
			ActiveMTU: p.link.pathMTU(), LinkMTU: p.link.mtu},
		[]verbs.GIDEntry{{Index: 0, GID: ib.GIDFromAddr(p.local.Addr()), Type: verbs.GIDRoCEv2, NetDev: p.link.name}}
}

// Follow has raise called when the address or its interface goes or comes back.
func (p *port) Follow(raise func(verbs.EventType)) { p.watch.Follow(raise) }

// Limits returns what one send can carry, and how much may be under way to one peer: its
// socket buffer is believed to be as large as ours, of which the kernel's own overhead
// takes half.
func (p *port) Limits() softdev.Limits {
	f := p.sock.Features()
	return softdev.Limits{MaxPackets: f.MaxSegments, MaxBytes: netio.MaxPayload, Window: min(f.RecvBuffer/4, maxWindow)}
}

// maxWindow keeps what is under way in the processors' caches.
const maxWindow = 1 << 20

// Resolve finds the way to a GID.
func (p *port) Resolve(attr *verbs.AHAttr) (any, error) {
	bad := func(format string, a ...any) (any, error) {
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
	return &route{to: dst, flow: ib.NewFlow(p.local, dst, true), ttl: attr.HopLimit, tos: attr.TrafficClass}, nil
}

// Backlog asks the system, which knows of peers on the same host.
func (p *port) Backlog(to any) (int, bool) { return p.queues.Received(p.local, to.(*route).to) }

// Refused asks the host whether anybody has its RoCEv2 port.
func (p *port) Refused(ctx context.Context, to any) error {
	host := to.(*route).to
	return p.sock.Refused(ctx, host, func(from netip.AddrPort) []byte { return question(from, host) })
}

// WantHeaders makes arrivals carry what a GRH needs.
func (p *port) WantHeaders() { p.sock.RecvHeaders(true) } // without it the GRH has defaults

func (p *port) JoinGroup(gid verbs.GID) error  { return p.sock.JoinGroup(gid.Addr()) }
func (p *port) LeaveGroup(gid verbs.GID) error { return p.sock.LeaveGroup(gid.Addr()) }

func (p *port) Wait(writable bool) error {
	if writable {
		return p.sock.WaitWritable()
	}
	return p.sock.Wait()
}

func (p *port) SetDeadline(t time.Time) { p.sock.SetDeadline(t) }
func (p *port) Wake()                   { p.sock.Wake() }

// Close ends what raises events, and frees the socket before the place among those that share it.
func (p *port) Close() error {
	p.watch.Close()
	err := p.sock.Close()
	p.queues.Close()
	if p.group != nil {
		p.group.Close()
	}
	return err
}
