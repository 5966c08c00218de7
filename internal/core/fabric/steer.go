// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// claims are the requests to queue pair 1 that an attachment serves: datagrams whose transaction id does not
// lead to one.
type claims struct {
	services []serviceRange
	classes  [256]bool
}

// serviceRange is a set of service ids of the connection manager.
type serviceRange struct{ id, mask uint64 }

// maxServices limits the service ids that an attachment can claim.
const maxServices = 1 << 14

var (
	errClaimed = errors.New("claimed already")
	errFull    = errors.New("no room for more")
)

// Claim reserves service ids among the attachments of the adapter.
func (s *Attachment) Claim(id, mask uint64) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, o := range s.m.attachments {
		if o == nil {
			continue
		}
		for _, c := range o.services {
			if (c.id^id)&c.mask&mask == 0 {
				return errClaimed
			}
		}
	}
	if len(s.services) == maxServices {
		return errFull
	}
	s.services = append(s.services, serviceRange{id, mask})
	return nil
}

// Unclaim gives up service ids that Claim has reserved.
func (s *Attachment) Unclaim(id, mask uint64) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for i, c := range s.services {
		if c == (serviceRange{id, mask}) {
			s.services = append(s.services[:i], s.services[i+1:]...)
			return
		}
	}
}

// Serve sets whether the attachment has an agent for a management class.
func (s *Attachment) Serve(class uint8, yes bool) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.classes[class] = yes
}

// deliver moves the packets that have arrived at a port to the attachments that they are for.
func (m *member) deliver(f *Fabric, port *link.Port) {
	for {
		p := f.net.Receive(port)
		if p == nil {
			return
		}
		num := port.Num()
		dest, at, ok := destination(p.Bytes())
		switch {
		case !ok:
		case dest == ib.QPNMulticast:
			m.deliverMulticast(f, num, p)
			continue
		case dest > ib.QP1:
			if s := m.attachments[steer.SlotOfQPN(dest)]; s != nil {
				if !s.isDecided(num, p) {
					s.enqueue(num, p)
				}
				continue
			}
		default:
			if dest == ib.QP1 && m.observeResponse(f, p) {
				f.net.Release(p)
				continue
			}
			if s := m.agentOf(dest, p.Bytes()[at:]); s != nil {
				if !ofPrograms(p.Bytes()[at:]) || !s.isDecided(num, p) {
					s.enqueue(num, p)
				}
				continue
			}
		}
		if s := m.anyAttachment(); s != nil {
			s.enqueue(num, p) // its device counts the packet as dropped
			continue
		}
		f.lose(p)
	}
}

// anyAttachment returns the attachment with the lowest slot, or nil.
func (m *member) anyAttachment() *Attachment {
	for _, s := range m.attachments {
		if s != nil {
			return s
		}
	}
	return nil
}

// enqueue queues a packet that holds buffer space of the port it came in at, and so holds its senders back.
func (s *Attachment) enqueue(port int, p *link.Packet) {
	if s.stalled {
		s.drop(p)
		return
	}
	if s.holdsNobody() {
		s.f.net.Vacate(p)
		s.enqueueOwn(port, p)
		return
	}
	s.held += len(p.Bytes())
	s.push(Arrival{Port: port, Packet: p})
}

// maxOwn is how many bytes of packets that hold no buffer space of a port an attachment's queue takes: as much as a
// queue pair has receives for. Packets that find no room are dropped, as by a queue pair without receives.
const maxOwn = 1 << 20

// ownOverhead is the number of bytes that a packet counts for beyond its own.
const ownOverhead = 128

// enqueueOwn queues a packet that holds no other back: a copy for one of several members of a group, an answer of the
// fabric itself. There is room for maxOwn bytes of them.
func (s *Attachment) enqueueOwn(port int, p *link.Packet) {
	cost := len(p.Bytes()) + ownOverhead
	if s.stalled || s.own+cost > maxOwn {
		s.drop(p)
		return
	}
	s.own += cost
	s.push(Arrival{Port: port, Packet: p, own: true})
}

func (s *Attachment) push(a Arrival) {
	*s.queue.PushBack() = a
	if s.queue.Len() == 1 {
		s.untouched = true
		s.setReady()
		s.driver.Wake()
		s.f.scheduleStallCheck()
	}
}

// pop removes the oldest packet of the queue.
func (s *Attachment) pop() Arrival {
	a := *s.queue.Front()
	s.queue.PopFront()
	if a.own {
		s.own -= len(a.Packet.Bytes()) + ownOverhead
	} else {
		s.held -= len(a.Packet.Bytes())
	}
	return a
}

func (s *Attachment) drop(p *link.Packet) {
	s.m.dropped++
	s.f.lose(p)
}

// deliverMulticast gives a multicast packet to all attachments; they know which queue pairs belong to the group.
// The last one gets the packet itself, the others copies.
func (m *member) deliverMulticast(f *Fabric, port int, p *link.Packet) {
	var last *Attachment
	for _, s := range m.attachments {
		if s == nil {
			continue
		}
		if last != nil {
			c := f.net.Alloc(len(p.Bytes()))
			copy(c.Bytes(), p.Bytes())
			c.NoICRC = p.NoICRC
			if !last.isDecided(port, c) {
				last.enqueueOwn(port, c)
			}
		}
		last = s
	}
	if last == nil {
		f.lose(p)
		return
	}
	if !last.isDecided(port, p) {
		last.enqueue(port, p)
	}
}

// destination returns the destination queue pair of a packet, and the offset of its BTH.
func destination(b []byte) (qp ib.QPN, bth int, ok bool) {
	if len(b) < ib.LRHLen {
		return 0, 0, false
	}
	switch ib.LNH(b[1] & 3) {
	case ib.LNHLocal:
		bth = ib.LRHLen
	case ib.LNHGlobal:
		bth = ib.LRHLen + ib.GRHLen
	default:
		return 0, 0, false // a raw packet
	}
	if len(b) < bth+ib.BTHLen+ib.ICRCLen {
		return 0, 0, false
	}
	qp = ib.QPN(binary.BigEndian.Uint32(b[bth+4:]) & 0xffffff)
	return qp, bth, qp != ib.QPNMulticast || bth > ib.LRHLen
}

// agentOf returns the attachment that a datagram to queue pair 0 or 1 is for, or nil. transport begins at the BTH.
func (m *member) agentOf(qp ib.QPN, transport []byte) *Attachment {
	slot := steer.Agent(agents{m, qp}, transport[min(len(transport), ib.BTHLen+ib.DETHLen):])
	if slot < 0 {
		return nil
	}
	return m.attachments[slot]
}

// ofPrograms reports whether programs exchange a management datagram, and not the subnet's manager.
// transport begins at the BTH.
func ofPrograms(transport []byte) bool {
	const class = ib.BTHLen + ib.DETHLen + 1
	return len(transport) > class && transport[class] == uint8(mad.ClassCM)
}

// agents are the management agents of an adapter's attachments, for package steer.
type agents struct {
	m  *member
	qp ib.QPN
}

func (a agents) IsActive(slot int) bool { return a.m.attachments[slot] != nil }

func (a agents) Owner(service uint64) (slot int, ok bool) {
	slot = slices.IndexFunc(a.m.attachments[:], func(s *Attachment) bool { return s != nil && s.claimed(service) })
	return slot, slot >= 0
}

// Server returns the slot that serves a class. Subnet management and administration belong to a subnet manager, if
// one is attached.
func (a agents) Server(class uint8) int {
	if a.qp == ib.QP0 || class == uint8(sa.Class) {
		if slot := slices.IndexFunc(a.m.attachments[:],
			func(s *Attachment) bool { return s != nil && s.sm }); slot >= 0 {
			return slot
		}
	}
	return slices.IndexFunc(a.m.attachments[:], func(s *Attachment) bool { return s != nil && s.classes[class] })
}

func (c *claims) claimed(id uint64) bool {
	for _, s := range c.services {
		if (s.id^id)&s.mask == 0 {
			return true
		}
	}
	return false
}
