// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/core/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// claims are what a seat takes of the datagrams to queue pair 1 that no transaction leads to.
type claims struct {
	services []service
	classes  [256]bool
}

// service are service ids of connection managers.
type service struct{ id, mask uint64 }

// maxServices limits what a seat can claim.
const maxServices = 1 << 14

var (
	errClaimed = errors.New("claimed already")
	errFull    = errors.New("no room for more")
)

// Claim reserves service ids among the seats of the adapter.
func (s *Seat) Claim(id, mask uint64) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, o := range s.m.seats {
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
	s.services = append(s.services, service{id, mask})
	return nil
}

// Unclaim gives them up.
func (s *Seat) Unclaim(id, mask uint64) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for i, c := range s.services {
		if c == (service{id, mask}) {
			s.services = append(s.services[:i], s.services[i+1:]...)
			return
		}
	}
}

// Serve says whether the seat has an agent for a management class.
func (s *Seat) Serve(class uint8, yes bool) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.classes[class] = yes
}

// take takes what has come to a port of an adapter to the seats.
func (m *member) take(f *Fabric, port *link.Port) {
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
			m.spread(f, num, p)
			continue
		case dest > ib.QP1:
			if s := m.seats[steer.SlotOfQPN(dest)]; s != nil {
				s.put(num, p)
				continue
			}
		default:
			if dest == ib.QP1 && m.heard(f, p) {
				f.net.Release(p)
				continue
			}
			if s := m.agentOf(dest, p.Bytes()[at:]); s != nil {
				s.put(num, p)
				continue
			}
		}
		if s := m.first(); s != nil {
			s.put(num, p) // which counts it
			continue
		}
		f.net.Release(p)
	}
}

// first returns a seat of the adapter, or nil.
func (m *member) first() *Seat {
	for _, s := range m.seats {
		if s != nil {
			return s
		}
	}
	return nil
}

func (s *Seat) put(port int, p *link.Packet) {
	if s.stalled {
		s.m.dropped++
		s.f.net.Release(p)
		return
	}
	*s.queue.PushBack() = Arrival{port, p}
	if s.queue.Len() == 1 {
		s.ready.Store(true)
		s.driver.Wake()
		s.f.lookLater()
	}
}

// spread gives a multicast packet to all seats, but for the last one as a copy: which queue pairs belong to
// the group is theirs to know.
func (m *member) spread(f *Fabric, port int, p *link.Packet) {
	var last *Seat
	for _, s := range m.seats {
		if s == nil {
			continue
		}
		if last != nil {
			c := f.net.Alloc(len(p.Bytes()))
			copy(c.Bytes(), p.Bytes())
			c.NoICRC = p.NoICRC
			last.put(port, c)
		}
		last = s
	}
	if last == nil {
		f.net.Release(p)
		return
	}
	last.put(port, p)
}

// destination returns the destination queue pair of a packet, and where its BTH is.
func destination(b []byte) (qp ib.QPN, bth int, ok bool) {
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

// agentOf returns the seat that a datagram to queue pair 0 or 1 is for, or nil.
func (m *member) agentOf(qp ib.QPN, transport []byte) *Seat {
	slot := steer.Agent(agents{m, qp}, transport[min(len(transport), ib.BTHLen+ib.DETHLen):])
	if slot < 0 {
		return nil
	}
	return m.seats[slot]
}

// agents are those of an adapter's seats at queue pair 0 or 1.
type agents struct {
	m  *member
	qp ib.QPN
}

func (a agents) IsActive(slot int) bool { return a.m.seats[slot] != nil }

func (a agents) Owner(service uint64) (slot int, ok bool) {
	slot = slices.IndexFunc(a.m.seats[:], func(s *Seat) bool { return s != nil && s.claimed(service) })
	return slot, slot >= 0
}

// Server returns that of the subnet manager for subnet management and administration.
func (a agents) Server(class uint8) int {
	if a.qp == ib.QP0 || class == uint8(sa.Class) {
		if slot := slices.IndexFunc(a.m.seats[:], func(s *Seat) bool { return s != nil && s.sm }); slot >= 0 {
			return slot
		}
	}
	return slices.IndexFunc(a.m.seats[:], func(s *Seat) bool { return s != nil && s.classes[class] })
}

func (c *claims) claimed(id uint64) bool {
	for _, s := range c.services {
		if (s.id^id)&s.mask == 0 {
			return true
		}
	}
	return false
}
