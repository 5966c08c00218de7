// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// group is the other devices of the same address, usually in other processes.
type group interface {
	steer.Group
	Slot() int // of this device, below steer.Slots
	Claim(service, mask uint64) error
	Release(service, mask uint64)
	Serve(class uint8, yes bool)
	Shared() bool // there are or were others
	Forward(slot int, msg []byte) bool
	Close() error
}

// sharing is a port's share of an address that several devices have. The kernel delivers to each
// device the packets to its queue pairs, and to one of them the packets to QP1. A packet for another
// device is forwarded. A management datagram goes to the device that has claimed the service id,
// issued the communication id or the transaction id, or has an agent for the class. A data packet
// is forwarded when GRO has joined it with packets of another device.
type sharing struct {
	group   group // nil: the address cannot be shared
	slot    int
	message []byte

	pending atomic.Bool // inbox is not empty
	mu      sync.Mutex
	inbox   [][]byte
	taken   [][]byte // the packets that Receive delivers; delivered elements are nil
	next    int      // index into taken
}

// refusedError says why the processes that share an address refuse another one.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }
func (e *refusedError) Unwrap() error { return syscall.EADDRINUSE }

// maxInbox limits the forwarded packets that wait for Receive.
const maxInbox = 4096

// forwardedAtOnce limits how many of them one Receive delivers.
const forwardedAtOnce = 256

// Prefix returns the device's number among the devices of the address.
func (s *sharing) Prefix() (slot uint32, bits int) {
	if s.group == nil {
		return 0, steer.Bits
	}
	return uint32(s.group.Slot()), steer.Bits
}

// Claim claims service ids among the devices of the address.
func (s *sharing) Claim(service, mask uint64) error {
	if s.group == nil {
		return nil
	}
	return s.group.Claim(service, mask)
}

// Serve records whether the device has an agent for a management class.
func (s *sharing) Serve(class uint8, yes bool) {
	if s.group != nil {
		s.group.Serve(class, yes)
	}
}

// Release undoes Claim.
func (s *sharing) Release(service, mask uint64) {
	if s.group != nil {
		s.group.Release(service, mask)
	}
}

// forward forwards a verified packet that is for another device of the address. It returns false
// if the packet is for this one.
func (p *port) forward(c *ibta.Counters, frame []byte, src *source, id uint16) bool {
	g := p.group
	if g == nil || !g.Shared() || p.packet.DestQP == ib.QPNMulticast {
		return false
	}
	slot := steer.SlotOfQPN(p.packet.DestQP)
	if p.packet.DestQP <= ib.QP1 {
		slot = agentOf(g, &p.packet)
	}
	if slot == g.Slot() {
		return false
	}
	if p.packet.DestQP > ib.QP1 && !g.IsActive(slot) {
		return false // dropped and counted: no such queue pair
	}
	p.message = appendForwarded(p.message[:0], &forwarded{src.from, src.to, id, p.header.TOS, p.header.TTL, frame})
	c.Forwarded++
	if !g.Forward(slot, p.message) {
		c.Dropped[ibta.DropForward]++
	}
	return true
}

// agentOf returns the slot of the device whose agent a packet to QP1 is for. A packet for no agent is for
// this device, which counts it.
func agentOf(g group, pkt *ib.Packet) int {
	if pkt.DestQP != ib.QP1 || ibta.CheckMAD(pkt, umad.Len) != ibta.Taken {
		return g.Slot()
	}
	if slot := steer.Agent(g, pkt.Payload); slot >= 0 {
		return slot
	}
	return g.Slot()
}

// forwarded is a packet that another device of the address received and verified.
type forwarded struct {
	from     netip.AddrPort
	to       netip.Addr
	id       uint16 // IPv4 identification
	tos, ttl uint8
	frame    []byte // with its ICRC
}

const forwardedHeader = 16 + 2 + 16 + 2 + 2

func appendForwarded(b []byte, f *forwarded) []byte {
	from, to := f.from.Addr().As16(), f.to.As16()
	b = append(b, from[:]...)
	b = binary.BigEndian.AppendUint16(b, f.from.Port())
	b = append(b, to[:]...)
	b = binary.BigEndian.AppendUint16(b, f.id)
	b = append(b, f.tos, f.ttl)
	return append(b, f.frame...)
}

func (f *forwarded) decode(b []byte) bool {
	if len(b) < forwardedHeader+ib.BTHLen+ib.ICRCLen {
		return false
	}
	f.from = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b)).Unmap(), binary.BigEndian.Uint16(b[16:]))
	f.to = netip.AddrFrom16([16]byte(b[18:])).Unmap()
	f.id = binary.BigEndian.Uint16(b[34:])
	f.tos, f.ttl, f.frame = b[36], b[37], b[forwardedHeader:]
	return true
}

// putForwarded queues a forwarded packet for the next Receive.
func (p *port) putForwarded(msg []byte) {
	p.sharing.mu.Lock()
	if len(p.inbox) < maxInbox {
		p.inbox = append(p.inbox, append([]byte(nil), msg...))
		p.pending.Store(true)
	}
	p.sharing.mu.Unlock()
	p.sock.Wake()
}

// takeForwarded delivers some of the forwarded packets.
func (p *port) takeForwarded(c *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) int {
	p.sharing.mu.Lock()
	if p.next == len(p.taken) {
		p.taken, p.inbox, p.next = p.inbox, p.taken[:0], 0
	}
	first := p.next
	p.next = min(first+forwardedAtOnce, len(p.taken))
	p.pending.Store(p.next < len(p.taken) || len(p.inbox) > 0)
	p.sharing.mu.Unlock()
	now := p.taken[first:p.next]
	for i, msg := range now {
		now[i] = nil
		var f forwarded
		if !f.decode(msg) || p.packet.Decode(f.frame[:len(f.frame)-ib.ICRCLen]) != nil {
			c.Dropped[ibta.DropMalformed]++
			continue
		}
		src := &source{from: f.from, to: f.to}
		p.header = ib.IPHeader{Src: ib.GIDFromAddr(f.from.Addr()), Dst: ib.GIDFromAddr(f.to), TOS: f.tos, TTL: f.ttl,
			Length: len(f.frame), IPv4: f.to.Is4()}
		p.arrival = ibta.Arrival{From: keyOf(f.from.Addr()), To: p.header.Dst, Global: true, Header: &p.header,
			Marked: marked(f.tos)}
		deliver(&p.packet, &p.arrival)
		p.traceFrame(f.frame, src, f.id)
	}
	return len(now)
}
