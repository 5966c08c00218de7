// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/etherring"
	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// port carries packets in the frames of one interface.
type port struct {
	name  string
	claim claim // of the interface
	sock  *etherring.Socket
	watch *linkwatch.Interface
	id    atomic.Pointer[identity]
	trace *trace.Writer
	sender
	receiver
	loopback loopbackFrames
}

// route is the path to one peer or group.
type route struct {
	port       *port
	key        ibta.PathKey
	stream     stream
	addr       netip.Addr // whose MAC the kernel resolves; not valid: the GID determines mac
	mac        mac
	known      bool   // mac is valid
	generation uint64 // of the neighbor table when mac was looked up
	self       bool   // the peer is this device
}

// init initialises a port that has its socket.
func (p *port) init(link linkwatch.Link) {
	p.id.Store(identify(nil, p.name, link))
	p.receiver.init()
}

// Ports returns 1: an interface is one port.
func (p *port) Ports() int { return 1 }

// Info returns the port's attributes and its tables.
func (p *port) Info(int) softdev.PortInfo { return p.id.Load().info }

// Follow calls changed when the interface, its addresses or its MTU change.
func (p *port) Follow(changed func(port int, events ...verbs.EventType)) {
	p.watch.Follow(func(_, link linkwatch.Link) {
		before := p.id.Load()
		now := identify(before, p.name, link)
		p.id.Store(now)
		changed(1, now.changes(before)...)
	})
}

// CheckRoute reports whether the system has a route to an address.
func (p *port) CheckRoute(from, to netip.Addr) error {
	if _, ok := macOf(ib.GIDFromAddr(to)); ok {
		return nil
	}
	return linkwatch.CheckRoute(p.name, from, to)
}

const (
	// maxBytes is how many bytes one Send carries: as many as stay in the first-level caches.
	maxBytes = 64 << 10
	// slotOverhead is the number of bytes that a packet counts for beyond its payload: a slot of the peer's ring leaves
	// at least that much unused, and a short packet takes a slot, too.
	slotOverhead = 2048
	// linkOverhead is the room that a packet takes of a link: Ethernet with FCS, preamble and gap, GRH, BTH, ICRC.
	linkOverhead = 14 + 4 + 8 + 12 + ib.GRHLen + ib.BTHLen + ib.ICRCLen
)

// Limits returns the limits of one batch, and how much may be in flight to one peer: half a ring, assuming that the
// peer's ring is as long as ours and that it has other peers.
func (p *port) Limits() ibta.Limits {
	return ibta.Limits{MaxPackets: etherring.MaxFrames, MaxBytes: maxBytes, Window: p.sock.Slots() / 2 * slotOverhead,
		Overhead: slotOverhead, LinkOverhead: linkOverhead}
}

// Resolve resolves an address vector to a path. The peer's MAC is looked up later, by [route.peerMAC].
func (p *port) Resolve(attr *verbs.AHAttr) (ibta.Path, error) {
	bad := func(format string, a ...any) (ibta.Path, error) {
		return nil, &verbs.OpError{Op: "resolve_address", Err: verbs.ErrInvalid, Detail: fmt.Sprintf(format, a...)}
	}
	id := p.id.Load()
	from, ok := id.row(attr.SGIDIndex)
	if !ok {
		return bad("SGIDIndex %d: the GID table has no such row", attr.SGIDIndex)
	}
	if attr.Port > 1 {
		return bad("Port %d: there is port 1 only", attr.Port)
	}
	if attr.DGID.Addr().IsUnspecified() {
		return bad("DGID is not set")
	}
	r := &route{port: p, key: pathKey(attr.DGID), self: id.own[attr.DGID]}
	if r.mac, r.known = macOf(attr.DGID); !r.known {
		r.addr = attr.DGID.Addr()
	}
	h := ib.GRH{IPVer: 6, TClass: attr.TrafficClass, FlowLabel: attr.FlowLabel, NxtHdr: ib.GRHNextHeader,
		HopLmt: attr.HopLimit, SGID: from, DGID: attr.DGID}
	if h.HopLmt == 0 {
		h.HopLmt = 64
	}
	var grh [ib.GRHLen]byte
	h.Append(grh[:0])
	r.stream = newStream(grh)
	return r, nil
}

func pathKey(g verbs.GID) ibta.PathKey { return ibta.PathKey{GID: g, Port: 1} }

// Key identifies the peer.
func (r *route) Key() ibta.PathKey { return r.key }

// Full returns false: the state of the peer's ring is unknown.
func (r *route) Full() bool { return false }

// Holds asks the system whether packets wait in the interface's queue.
func (r *route) Holds() bool { return r.port.sock.Unsent() > 0 }

// peerMAC returns the peer's Ethernet address, or the last known one if the kernel has forgotten it.
func (r *route) peerMAC() (mac, bool) {
	if r.addr.IsValid() {
		if now := r.port.watch.Generation(); !r.known || now != r.generation {
			if m, ok := r.port.watch.Neighbor(r.addr); ok {
				r.mac, r.known, r.generation = m, true, now
			}
		}
	}
	return r.mac, r.known
}

// Locate waits until the kernel has resolved a peer's Ethernet address.
func (p *port) Locate(ctx context.Context, gid verbs.GID) error {
	if _, ok := macOf(gid); ok || gid.Addr().IsUnspecified() || p.id.Load().own[gid] {
		return nil
	}
	_, err := p.watch.AwaitNeighbor(ctx, gid.Addr())
	if err != nil && ctx.Err() == nil {
		return &verbs.OpError{Op: "resolve_address", Err: verbs.ErrNotFound,
			Detail: err.Error() + "; RoCE v1 is not routed, so peers are on the same link"}
	}
	return err
}

// Connect and Disconnect have nothing to do.
func (p *port) Connect(ibta.Path)    {}
func (p *port) Disconnect(ibta.Path) {}

// WantHeaders has nothing to do: every frame has its GRH.
func (p *port) WantHeaders() {}

// JoinGroup makes the interface receive the frames of a group.
func (p *port) JoinGroup(_ int, gid verbs.GID, _ uint16) error {
	m, _ := macOf(gid)
	err := p.sock.Join(m)
	if err == nil {
		p.groups[gid] = true
	}
	return err
}

// LeaveGroup undoes JoinGroup.
func (p *port) LeaveGroup(_ int, gid verbs.GID, _ uint16) error {
	m, _ := macOf(gid)
	delete(p.groups, gid)
	return p.sock.Leave(m)
}

// Wait waits for frames, unless loopback frames wait already.
func (p *port) Wait(writable bool) error {
	if p.loopback.ready.Load() {
		return nil
	}
	return p.sock.Wait(writable)
}

// Pollable, BeginWait and EndWait implement softdev.PollWaiter.
func (p *port) Pollable() bool { return true }

func (p *port) BeginWait(writable bool, at *driver.PollSet) bool {
	return !p.loopback.ready.Load() && p.sock.BeginWait(writable, (*pollwait.Set)(at))
}

func (p *port) EndWait(readable bool) { p.sock.EndWait(readable) }

func (p *port) CanPark() bool { return true }

// Park waits for frames.
func (p *port) Park(d time.Duration) {
	if !p.loopback.ready.Load() {
		p.sock.Park(d)
	}
}

func (p *port) SetDeadline(t time.Time) { p.sock.SetDeadline(t) }
func (p *port) Wake()                   { p.sock.Wake() }

// Close stops events, closes the socket, and then releases the interface.
func (p *port) Close() error {
	p.watch.Close()
	err := p.sock.Close()
	p.claim.release()
	return err
}
