// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Simulation is the environment of a fabric in virtual time.
type Simulation struct {
	NewWaiter func() Waiter     // called for the fabric's goroutine first, then for each driver
	Record    link.Recorder     // called with each frame sent, with the fabric's lock held
	Attached  func(*Attachment) // called for each driver that attaches, with the fabric's lock held; nil: not called
	// Arrives is called with each packet that a program has sent and that has come to an attachment, with the fabric's
	// lock held; nil: not called. With ok it has decided: so many copies come by [Attachment.Deliver], or the packet is
	// lost if there are none.
	Arrives func(to *Attachment, port int, p *link.Packet) (copies int, ok bool)
}

// Raise has the driver raise events of a port. It is for simulations, as is the rest of this file.
func (s *Attachment) Raise(port int, events ...verbs.EventType) { s.changed(port, events...) }

// Stop keeps the program from sending and receiving, as if its process were stopped, or lets it go on.
func (s *Attachment) Stop(stop bool) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	s.stopped = stop
	s.setReady()
	if !stop {
		s.driver.Wake()
	}
}

// Remove has nothing reach the program any more, and nothing of it reach anybody, as if its device had been taken out.
func (s *Attachment) Remove() {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	s.removed = true
	for _, o := range s.unsent {
		f.lose(o.packet)
	}
	if s.unsent = nil; !s.closed {
		s.signalRoom()
	}
	s.dropQueue()
	s.setReady()
	f.step()
}

// Source returns the IP address of the adapter that a packet comes from; the zero value: it is unknown. The fabric's
// lock is held.
func (s *Attachment) Source(p *link.Packet) netip.Addr {
	lid := binary.BigEndian.Uint16(p.Bytes()[6:])
	for _, m := range s.f.members {
		if !m.addr.ip.IsValid() {
			continue
		}
		for i := 1; i < len(m.state.Ports); i++ {
			if a := &m.state.Ports[i].Address; a.LID != 0 && lid>>a.LMC == a.LID>>a.LMC {
				return m.addr.ip
			}
		}
	}
	return netip.Addr{}
}

// Copy returns a copy of a packet for [Attachment.Deliver]. If it is corrupt its ICRC is wrong. The fabric's lock is
// held.
func (s *Attachment) Copy(p *link.Packet, corrupt bool) *link.Packet {
	c := s.f.net.Alloc(len(p.Bytes()))
	b := c.Bytes()
	copy(b, p.Bytes())
	c.NoICRC = p.NoICRC
	if corrupt {
		end := len(b) - ib.ICRCLen
		if crc, ok := ib.LocalICRC(b[:end]); ok {
			binary.LittleEndian.PutUint32(b[end:], crc^1)
		}
		c.NoICRC = false
	}
	return c
}

// Deliver delivers a packet of Copy. The lock is not held.
func (s *Attachment) Deliver(port int, p *link.Packet) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || s.closed || s.removed {
		f.lose(p)
		return
	}
	s.enqueueOwn(port, p)
	f.step()
}

// isDecided reports whether the simulation has decided about a packet that has come.
func (s *Attachment) isDecided(port int, p *link.Packet) bool {
	sim := s.f.sim
	switch {
	case s.removed:
		s.f.lose(p)
		return true
	case sim == nil || sim.Arrives == nil:
		return false
	}
	copies, ok := sim.Arrives(s, port, p)
	switch {
	case !ok:
		return false
	case copies == 0:
		s.f.lose(p)
	default:
		s.f.net.Release(p)
	}
	return true
}
