// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// maxPackets and maxBytes are the limits of one send, as with GSO.
	maxPackets = 64
	maxBytes   = 65507
	// portWindow is how many bytes may be in flight to one peer, see Host.Window.
	portWindow = 256 << 10
	// sendOverhead is how many bytes a packet takes of a window beyond its payload.
	sendOverhead = 192
	// recvBuffer is the room that a port keeps for its receiver, each packet with so much overhead, see Host.Buffer.
	recvBuffer     = 4 * portWindow
	packetOverhead = 256
	// recvBatch is how many packets one Receive takes.
	recvBatch = 32
	// sendBuffer is how long the packets to send may take, until a port is full.
	sendBuffer = 2 * time.Millisecond
)

// Port carries packets to the ports of other hosts.
type Port struct {
	waiter
	changed func(int, ...verbs.EventType)
	id      uint16 // IPv4 identification of the next packet
	buffer  []arrival
	size    int     // bytes in buffer, and of packets that are to be handled yet
	handled instant // when the last packet that has come will have been handled
	window  int
	full    bool
	headers bool // WantHeaders
	killed  bool // the process is gone
	closed  bool
	packet  ib.Packet
	from    ibta.Arrival
	header  ib.IPHeader // of from
	taken   []arrival

	flowFrom, flowTo netip.Addr // of the last packet
	flow             ib.PseudoHeader
}

// arrival is a packet that has come.
type arrival struct {
	src, dst netip.Addr
	id       uint16
	ttl, tos uint8
	frame    []byte
}

// route is the way to an address.
type route struct {
	to       netip.Addr
	ttl, tos uint8
	flow     ib.PseudoHeader
}

func newPort(h *Host) *Port { return &Port{waiter: newWaiter(h), window: h.Window} }

// Ports: a host has one.
func (p *Port) Ports() int { return 1 }

// Info returns the port's attributes and its tables.
func (p *Port) Info(int) softdev.PortInfo { return p.host.info(verbs.GIDRoCEv2) }

// Follow has changed called for each event of the port. The MTU stays.
func (p *Port) Follow(changed func(port int, events ...verbs.EventType)) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.changed = changed
}

func (p *Port) follow(e verbs.EventType) {
	p.net.mu.Lock()
	changed, gone := p.changed, p.closed || p.killed
	p.net.mu.Unlock()
	if changed != nil && !gone {
		changed(1, e)
	}
}

// AllocAddr returns an address for a region.
func (p *Port) AllocAddr(size int) uint64 { return p.host.AllocAddr(size) }

// RefuseRegion returns why a region is refused.
func (p *Port) RefuseRegion() error { return p.host.refuseRegion() }

// Limits returns the limits of one send.
func (p *Port) Limits() ibta.Limits {
	return ibta.Limits{MaxPackets: maxPackets, MaxBytes: maxBytes, Window: p.window, Overhead: sendOverhead}
}

// Resolve finds the way to a GID.
func (p *Port) Resolve(a *verbs.AHAttr) (ibta.Path, error) {
	to := a.DGID.Addr()
	switch {
	case a.SGIDIndex != 0 || a.Port > 1:
		return nil, &verbs.OpError{Op: "resolve_address", Err: verbs.ErrInvalid,
			Detail: "SGIDIndex or Port: there is one of each"}
	case !to.Is4() || to.IsUnspecified():
		return nil, &verbs.OpError{Op: "resolve_address", Err: verbs.ErrInvalid,
			Detail: "DGID: the network has IPv4 only"}
	}
	r := &route{to: to, ttl: a.HopLimit, tos: a.TrafficClass, flow: flow(p.host.addr, to)}
	if r.ttl == 0 {
		r.ttl = 64
	}
	return r, nil
}

func flow(from, to netip.Addr) ib.PseudoHeader {
	return ib.NewPseudoHeader(netip.AddrPortFrom(from, ib.UDPPort), netip.AddrPortFrom(to, ib.UDPPort), true)
}

func keyOf(a netip.Addr) ibta.PathKey { return ibta.PathKey{GID: ib.GIDFromAddr(a), Port: 1} }

// Key returns the key that tells the peer from others.
func (r *route) Key() ibta.PathKey { return keyOf(r.to) }

// Full is unknown, as it is of other hosts.
func (r *route) Full() bool { return false }

// Holds is unknown, as it is of other hosts.
func (r *route) Holds() bool { return false }

// Connect and Disconnect have nothing to do.
func (p *Port) Connect(ibta.Path)    {}
func (p *Port) Disconnect(ibta.Path) {}

// Refused waits until the host at an address reports that no device receives there.
func (p *Port) Refused(ctx context.Context, to ibta.Path) error {
	answer := make(chan struct{})
	p.net.mu.Lock()
	if h := p.net.hostAt(to.(*route).to); h != nil {
		there := p.net.path(p.host, h)
		p.net.at(p.net.now()+instant(2*there.Delay), func() {
			if p.host.reaches(h) && h.reaches(p.host) && h.port() == nil {
				close(answer)
			}
		})
	}
	p.net.mu.Unlock()
	select {
	case <-answer:
		return &net.OpError{Op: "read", Net: "udp", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// port returns the host's port, nil: it is not open; the lock is held.
func (h *Host) port() *Port {
	for _, d := range h.open {
		if p, ok := d.(*Port); ok && !p.closed && !p.killed {
			return p
		}
	}
	return nil
}

// WantHeaders asks for arrivals with fields of their IP headers.
func (p *Port) WantHeaders() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.headers = true
}

// JoinGroup takes packets to a multicast group.
func (p *Port) JoinGroup(_ int, gid verbs.GID, _ uint16) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.net.groups[gid] = append(p.net.groups[gid], p)
	return nil
}

// LeaveGroup ends JoinGroup.
func (p *Port) LeaveGroup(_ int, gid verbs.GID, _ uint16) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.net.groups[gid] = slices.DeleteFunc(p.net.groups[gid], func(o *Port) bool { return o == p })
	return nil
}

var errUnmapped = errors.New("simnet: memory to be sent has been unmapped")

// Send puts a batch's packets on their way, with the identifications and ICRCs that they would have
// on the wire.
func (p *Port) Send(b *ibta.Batch) error {
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	r := b.To.Path.(*route)
	if p.isFull(r) {
		return softdev.ErrAgain
	}
	for i := range b.Len() {
		out := b.Packet(i)
		frame := append(make([]byte, 0, b.PacketSize(i)), out.Head...)
		for _, piece := range out.Payload {
			at := len(frame)
			frame = frame[:at+len(piece)]
			if !memory.Copy(frame[at:], piece) {
				return errUnmapped
			}
		}
		frame = append(frame, out.Tail[:len(out.Tail)-ib.ICRCLen]...)
		if n.Mutate != nil {
			n.Mutate(frame)
		}
		frame = ib.AppendICRC(frame, 0, r.flow.Seed(udpHeader+len(frame)+ib.ICRCLen, p.id))
		if b.Corrupt && i == b.Len()-1 {
			frame[len(frame)-1] ^= 1
		}
		p.send(r, arrival{src: p.host.addr, dst: r.to, id: p.id, ttl: r.ttl, tos: r.tos, frame: frame})
		p.id++
	}
	return nil
}

const udpHeader = 8

// isFull reports whether the port can take no more now, as its process is stopped or the link is slow.
func (p *Port) isFull(r *route) bool {
	n := p.net
	if p.host.stopped || p.full {
		return true
	}
	to := n.hostAt(r.to)
	if to == nil {
		return false
	}
	if left := n.path(p.host, to).free - n.now(); left > instant(sendBuffer) {
		p.full = true
		n.at(n.now()+left-instant(sendBuffer/2), func() {
			p.full = false
			p.look()
		})
	}
	return p.full
}

// send puts one packet on its way.
func (p *Port) send(r *route, a arrival) {
	n := p.net
	if p.killed {
		return
	}
	src, dst := netip.AddrPortFrom(a.src, ib.UDPPort), netip.AddrPortFrom(a.dst, ib.UDPPort)
	n.line("out", src, dst, a.frame)
	if n.Watch != nil {
		var left ib.Packet
		if left.Decode(a.frame[:len(a.frame)-ib.ICRCLen]) == nil {
			n.Watch.Leaves(time.Duration(n.now()), p.host, &left)
		}
	}
	lost := true
	logged := n.log != nil && n.log.Packets
	if r.to.IsMulticast() {
		for _, member := range n.groups[ib.GIDFromAddr(r.to)] {
			lost = !n.carry(p.host, member.host, a, true) && lost
		}
	} else if to := n.hostAt(r.to); to != nil {
		lost = !n.carry(p.host, to, a, logged)
	}
	if logged {
		n.log.packets = append(n.log.packets,
			packet{at: n.now(), src: src, dst: dst, id: a.id, frame: a.frame, lost: lost})
	}
}

// carry takes a packet to a host, or loses it. keep says that its frame is needed afterwards.
func (n *Net) carry(from, to *Host, a arrival, keep bool) bool {
	w := n.path(from, to)
	left := w.leaves(n.now(), len(a.frame)+udpHeader)
	if !from.reaches(to) {
		return false
	}
	all := w.passages(left, len(a.frame))
	for i, g := range all {
		a := a
		if keep || i < len(all)-1 {
			a.frame = slices.Clone(a.frame)
		}
		if g.flip >= 0 {
			a.frame[g.flip/8] ^= 1 << (g.flip % 8)
		}
		n.at(g.at, func() {
			if from.reaches(to) {
				to.arrive(a)
			}
		})
	}
	return len(all) > 0
}

// arrive puts a packet into the buffer of the receiver.
func (h *Host) arrive(a arrival) {
	p := h.port()
	if p == nil {
		return
	}
	size := len(a.frame) + packetOverhead
	if p.size+size > h.Buffer {
		h.overflows++
		return
	}
	h.net.line("in", netip.AddrPortFrom(a.src, ib.UDPPort), netip.AddrPortFrom(a.dst, ib.UDPPort), a.frame)
	p.size += size
	if h.PerPacket == 0 {
		p.keep(a)
		return
	}
	p.handled = max(p.handled, h.net.now()) + instant(h.PerPacket)
	h.net.at(p.handled, func() { p.keep(a) })
}

// keep has a packet for the receiver.
func (p *Port) keep(a arrival) {
	if p.closed || p.killed {
		return
	}
	p.buffer = append(p.buffer, a)
	if !p.host.stopped {
		p.look()
	}
}

// Receive calls deliver for each good packet that has come, as many as one read takes.
func (p *Port) Receive(c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error) {
	p.net.mu.Lock()
	if p.closed {
		p.net.mu.Unlock()
		return 0, net.ErrClosed
	}
	p.taken = p.taken[:0]
	if !p.host.stopped {
		p.taken = append(p.taken, p.buffer[:min(recvBatch, len(p.buffer))]...)
		p.buffer = slices.Delete(p.buffer, 0, len(p.taken))
	}
	for i := range p.taken {
		p.size -= len(p.taken[i].frame) + packetOverhead
	}
	headers := p.headers
	p.net.mu.Unlock()
	for i := range p.taken {
		p.receive(&p.taken[i], headers, c, deliver)
	}
	return len(p.taken), nil
}

// receive checks and decodes a packet, as a socket's is, and spoils it then: the device must not keep it.
func (p *Port) receive(a *arrival, headers bool, c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) {
	if a.src != p.flowFrom || a.dst != p.flowTo {
		p.flowFrom, p.flowTo, p.flow = a.src, a.dst, flow(a.src, a.dst)
	}
	f := &p.flow
	_, how := f.Verify(a.frame, a.id)
	if how == ib.NotVerified && len(a.frame) > 0 && ib.Opcode(a.frame[0]) == ib.RCFlush {
		_, how = f.VerifyFlushOfRxe(a.frame, a.id)
	}
	if how == ib.NotVerified {
		c.Dropped[ibta.DropICRC]++
		return
	}
	n := len(a.frame)
	if err := p.packet.Decode(a.frame[:n-ib.ICRCLen]); err != nil && err != ib.ErrLength {
		c.Dropped[ibta.DropMalformed]++
		return
	}
	p.header = ib.IPHeader{Src: ib.GIDFromAddr(a.src), Dst: ib.GIDFromAddr(a.dst), TTL: 64, Length: n, IPv4: true}
	if headers {
		p.header.TTL, p.header.TOS = a.ttl, a.tos
	}
	p.from = ibta.Arrival{From: keyOf(a.src), To: p.header.Dst, Global: true, Header: &p.header}
	deliver(&p.packet, &p.from)
	if w := p.net.Watch; w != nil {
		p.net.mu.Lock()
		w.Taken(time.Duration(p.net.now()), p.host, &p.packet)
		p.net.mu.Unlock()
	}
	for left := a.frame; len(left) > 0; {
		left = left[copy(left, spoiled[:]):]
	}
}

// spoiled is what a packet's bytes are when it has been delivered.
var spoiled = [4096]byte(bytes.Repeat([]byte{0xdb}, 4096))

// Wait blocks until a packet has come, with writable also until the port may take some, the
// deadline passes, or Wake is called.
func (p *Port) Wait(writable bool) error {
	return p.wait(func() bool {
		return p.closed || !p.host.stopped && (writable && !p.full || len(p.buffer) > 0)
	})
}

// Close ends the port.
func (p *Port) Close() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.closed = true
	p.kill()
	return nil
}

func (p *Port) kill() {
	p.killed = true
	p.buffer, p.size = nil, 0
	for gid, members := range p.net.groups {
		p.net.groups[gid] = slices.DeleteFunc(members, func(o *Port) bool { return o == p })
	}
	p.look()
}
