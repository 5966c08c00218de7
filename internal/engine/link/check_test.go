// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// ports returns all ports of nodes.
func ports(nodes ...*Node) (all []*Port) {
	for _, nd := range nodes {
		for i, p := range nd.ports {
			if i > 0 || nd.State().Tables != nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// checkCredits fails the test if a buffer has more than fits, or a sender may send more than there is room
// for.
func checkCredits(tb testing.TB, all []*Port) {
	tb.Helper()
	for _, p := range all {
		if n := p.State().Counters.BufferOverrun; n != 0 {
			tb.Fatalf("port %d of %#x: %d packets beyond the credits", p.num, p.node.State().GUID, n)
		}
		for vl := range uint8(managementLane) {
			in := &p.in[vl]
			if in.used > in.size {
				tb.Fatalf("port %d of %#x, lane %d: %d blocks in a buffer of %d", p.num, p.node.State().GUID, vl,
					in.used, in.size)
			}
			if !p.up || p.peer == nil {
				continue
			}
			// The blocks that the sender takes for free, and the packets in flight, must fit.
			out := &p.peer.out[vl]
			promised := (out.fccl - in.abr) & creditMask
			if promised <= maxBuffer && promised > in.size-in.used {
				tb.Fatalf("port %d of %#x, lane %d: %d blocks promised, %d free", p.num, p.node.State().GUID, vl,
					promised, in.size-in.used)
			}
		}
	}
}

// checkIdle fails the test if a packet is anywhere, or a credit is missing.
func checkIdle(tb testing.TB, all []*Port) {
	tb.Helper()
	checkCredits(tb, all)
	for _, p := range all {
		for lane := range p.in {
			if p.in[lane].used != 0 || p.out[lane].n != 0 {
				tb.Errorf("port %d of %#x, lane %d: %d blocks, %d packets left", p.num, p.node.State().GUID, lane,
					p.in[lane].used, p.out[lane].n)
			}
		}
		if p.flights.n != 0 || p.tx != nil || p.arrivals.n != 0 {
			tb.Errorf("port %d of %#x: %d on the cable, %d arrived", p.num, p.node.State().GUID, p.flights.n,
				p.arrivals.n)
		}
		for vl := range p.state.Lanes.Operational {
			if !p.up || p.peer == nil {
				continue
			}
			in, out := &p.in[vl], &p.peer.out[vl]
			if in.abr != out.fctbs {
				tb.Errorf("port %d of %#x, lane %d: %d blocks came, %d were sent", p.num, p.node.State().GUID, vl,
					in.abr, out.fctbs)
			}
			if free := (out.fccl - out.fctbs) & creditMask; free > in.size || free <= in.size/2 {
				tb.Errorf("port %d of %#x, lane %d: sender knows of %d blocks of %d", p.num, p.node.State().GUID, vl,
					free, in.size)
			}
		}
	}
}

// sender sends as many packets as the network takes.
type sender struct {
	from *Port
	dlid uint16
	sl   uint8
	size int
	sent uint64
	max  uint64 // 0: no end
}

// push sends until the queue is full or all is sent.
func (s *sender) push(f *fabric) {
	for s.max == 0 || s.sent < s.max {
		p := f.packet(s.from, s.dlid, s.sl, s.size, s.sent)
		if !f.net.Send(f.now, s.from, p) {
			f.net.Release(p)
			return
		}
		s.sent++
	}
}

// flow is the traffic that arrives from a sender: it must be in order, without gaps.
type flow struct {
	slid uint16
	sl   uint8
	next uint64
}

// sink takes the packets that arrive at a port.
type sink struct {
	port  *Port
	flows map[uint32]*flow
	bytes int64
}

func newSink(p *Port) *sink { return &sink{port: p, flows: map[uint32]*flow{}} }

// take takes at most max packets and reports how many there were.
func (s *sink) take(f *fabric, max int) int {
	f.tb.Helper()
	for n := range max {
		p := f.net.Receive(s.port)
		if p == nil {
			return n
		}
		var h ib.LRH
		h.Decode(p.Bytes())
		key := uint32(h.SLID)<<8 | uint32(h.SL)
		fl := s.flows[key]
		if fl == nil {
			fl = &flow{slid: h.SLID, sl: h.SL}
			s.flows[key] = fl
		}
		if id := idOf(p); id != fl.next {
			f.tb.Fatalf("from LID %d, SL %d: packet %d came, want %d", h.SLID, h.SL, id, fl.next)
		}
		fl.next++
		s.bytes += int64(len(p.Bytes()))
		f.net.Release(p)
	}
	return max
}

func (s *sink) got(slid uint16, sl uint8) uint64 {
	if fl := s.flows[uint32(slid)<<8|uint32(sl)]; fl != nil {
		return fl.next
	}
	return 0
}

// drive steps virtual time from deadline to deadline until a time, keeping senders busy and sinks empty.
// Checks are made at every step.
func (f *fabric) drive(until clock.Time, senders []*sender, sinks []*sink, all []*Port) {
	f.tb.Helper()
	byPort := map[*Port]func(Events){}
	for _, s := range senders {
		s.push(f)
		before := byPort[s.from]
		byPort[s.from] = func(e Events) {
			if before != nil {
				before(e)
			}
			if e&(Room|Changed) != 0 {
				s.push(f)
			}
		}
	}
	for _, s := range sinks {
		before := byPort[s.port]
		byPort[s.port] = func(e Events) {
			if before != nil {
				before(e)
			}
			if e&Arrived != 0 {
				s.take(f, 1<<30)
			}
		}
	}
	for step := 0; ; step++ {
		more := f.net.Run(f.now, 64)
		f.buf = f.net.Woken(f.buf[:0])
		for _, w := range f.buf {
			if h := byPort[w.Port]; h != nil {
				h(w.Events)
			}
		}
		if step%64 == 0 {
			checkCredits(f.tb, all)
		}
		if more || len(f.buf) > 0 {
			continue
		}
		next := f.net.Deadline()
		if next == 0 || next > until {
			f.now = max(f.now, until)
			checkCredits(f.tb, all)
			return
		}
		f.now = max(f.now, next)
	}
}

// total adds up a counter over ports.
func total(all []*Port, get func(*node.Counters) uint64) (sum uint64) {
	for _, p := range all {
		sum += get(&p.State().Counters)
	}
	return sum
}
