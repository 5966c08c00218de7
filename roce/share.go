// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/softdev"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// group is the other devices of the same address, mostly those of other processes.
type group interface {
	softdev.Sharer
	Shared() bool // there have been others
	Lives(slot int) bool
	Owner(service uint64) (slot int, ok bool)
	Manager() (slot int)
	Forward(slot int, msg []byte) bool
	Close() error
}

// sharing is a port's part in an address that several devices have. The kernel gives each
// device the packets to its queue pairs, and one of them those to QP1. What is for another
// is forwarded: a management datagram to the device that has claimed the service id or
// given out the communication id, and now and then a packet that GRO has joined with those
// of another device.
type sharing struct {
	group   group // nil: the address cannot be shared
	prefix  ib.QPN
	message []byte

	pending atomic.Bool // inbox is not empty
	mu      sync.Mutex
	inbox   [][]byte
	taken   [][]byte // what is being delivered, of Receive; what was delivered is nil
	next    int      // of taken
}

// refusedError says why one cannot join those who have an address.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }
func (e *refusedError) Unwrap() error { return syscall.EADDRINUSE }

const prefixShift = 24 - ibta.PrefixBits

// maxInbox bounds what others forwarded and nobody has taken yet.
const maxInbox = 4096

// forwardedAtOnce bounds what one Receive takes of it.
const forwardedAtOnce = 256

// Slot returns the device's number among those of the address.
func (s *sharing) Slot() int {
	if s.group == nil {
		return 0
	}
	return s.group.Slot()
}

// Claim claims service ids among the devices of the address.
func (s *sharing) Claim(service, mask uint64) error {
	if s.group == nil {
		return nil
	}
	return s.group.Claim(service, mask)
}

// Manage notes whether the device has a connection manager.
func (s *sharing) Manage(yes bool) {
	if s.group != nil {
		s.group.Manage(yes)
	}
}

// Release undoes Claim.
func (s *sharing) Release(service, mask uint64) {
	if s.group != nil {
		s.group.Release(service, mask)
	}
}

// passesOn forwards a verified packet that is for another device of the address; false: it
// is for this one.
func (p *port) passesOn(c *ibta.Counters, frame []byte, src *source, id uint16) bool {
	g := p.group
	if g == nil || !g.Shared() || p.packet.DestQP == ib.QPNMulticast {
		return false
	}
	slot := int(p.packet.DestQP >> prefixShift)
	if p.packet.DestQP <= ib.QP1 {
		slot = managerOf(g, &p.packet)
	}
	if slot == g.Slot() {
		return false
	}
	if p.packet.DestQP > ib.QP1 && !g.Lives(slot) {
		return false // counted as a packet for no queue pair
	}
	p.message = appendForwarded(p.message[:0], &forwarded{src.from, src.to, id, p.arrival.TOS, p.arrival.TTL, frame})
	c.Forwarded++
	if !g.Forward(slot, p.message) {
		c.Dropped[ibta.DropForward]++
	}
	return true
}

// managerOf returns the slot of the device whose connection manager a packet to QP1 is for
// (IBTA 12.6): the one that listens to its service id, or that gave out its communication
// id. Where there is none, any manager can say so.
func managerOf(g group, pkt *ib.Packet) int {
	var h mad.Header
	if pkt.DestQP != ib.QP1 || ibta.CheckMAD(pkt, verbs.MADLen) != ibta.Taken || !h.Decode(pkt.Payload) {
		return g.Slot() // which counts it
	}
	if h.Class != mad.ClassCM {
		return g.Manager()
	}
	data := pkt.Payload[mad.HeaderLen:]
	id := binary.BigEndian.Uint32(data[4:]) // the receiver's
	switch h.Attribute {
	case mad.AttrREQ, mad.AttrSIDRREQ:
		if slot, ok := g.Owner(binary.BigEndian.Uint64(data[8:])); ok && g.Lives(slot) {
			return slot
		}
		return g.Manager()
	case mad.AttrSIDRREP:
		id = binary.BigEndian.Uint32(data)
	}
	if slot := int(id >> (32 - ibta.PrefixBits)); g.Lives(slot) {
		return slot
	}
	return g.Manager()
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

// putForwarded keeps what another device forwarded until the next Receive.
func (p *port) putForwarded(msg []byte) {
	p.sharing.mu.Lock()
	if len(p.inbox) < maxInbox {
		p.inbox = append(p.inbox, append([]byte(nil), msg...))
		p.pending.Store(true)
	}
	p.sharing.mu.Unlock()
	p.sock.Wake()
}

// takeForwarded delivers some of what others forwarded.
func (p *port) takeForwarded(c *ibta.Counters, deliver func(*ib.Packet, *softdev.Arrival)) int {
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
		p.arrival = softdev.Arrival{Src: ib.GIDFromAddr(f.from.Addr()), Dst: ib.GIDFromAddr(f.to), TOS: f.tos, TTL: f.ttl,
			Length: len(f.frame), IPv4: f.to.Is4()}
		if p.trace != nil {
			p.traceFrame(f.frame, src, f.id)
		}
		deliver(&p.packet, &p.arrival)
	}
	return len(now)
}
