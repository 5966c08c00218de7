// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// message is a SEND of the peer with one byte of payload.
func (s *script) message(psn ib.PSN) *ib.Packet {
	p := s.packet(ib.OpSendOnly, psn, 1)
	p.AckReq = false
	return p
}

// late has request 200 come after 201, and that followed by something new.
func late(t *testing.T) *script {
	t.Helper()
	s := start(t, verbs.RC)
	s.receives(8, 200, 201, 202, 203, 204, 205, 206, 207)
	s.in(s.message(201))
	s.wantAETH(200, ib.NAK(ib.NAKPSNSequenceError))
	s.pass(time.Millisecond)
	s.in(s.message(200))
	s.wantAETH(201, okAck)
	s.in(s.message(202))
	for id := range uint64(3) {
		s.wantWC(200+id, verbs.StatusSuccess)
	}
	s.silence()
	return s
}

// As soon as a request turns out to have been late and not lost, as the packets behind it are new,
// the next missing one is given twice that time before a NAK (IBTA 9.7.5.1.1).
func TestLateRequest(t *testing.T) {
	s := late(t)
	s.in(s.message(204))
	s.pass(2*time.Millisecond - 1)
	s.silence()
	s.in(s.message(203))
	s.wantWC(203, verbs.StatusSuccess)
	s.wantWC(204, verbs.StatusSuccess)
	s.silence()
	// This one does not come.
	s.in(s.message(206))
	s.pass(4*time.Millisecond - 3)
	s.silence()
	s.pass(1)
	s.wantAETH(205, ib.NAK(ib.NAKPSNSequenceError))
	s.pass(time.Second)
	s.in(s.message(205))
	s.wantWC(205, verbs.StatusSuccess)
	s.wantWC(206, verbs.StatusSuccess)
	s.wantAETH(206, okAck)
	s.idle()
}

// A request that comes twice was late, even if the next one is missing by then. The one after that is given time.
func TestLateRequestAmongOthers(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 200, 201, 202, 203, 204, 205)
	s.in(s.message(201))
	s.wantAETH(200, ib.NAK(ib.NAKPSNSequenceError))
	s.pass(time.Millisecond)
	s.in(s.message(200))
	s.wantAETH(201, okAck)
	s.in(s.message(203))
	s.out = nil // asks for 202
	s.inWant(ibta.DropDuplicate, s.message(200))
	s.out = nil // acknowledged again
	s.in(s.message(202))
	s.out = nil
	for id := range uint64(4) {
		s.wantWC(200+id, verbs.StatusSuccess)
	}
	s.in(s.message(205))
	s.pass(2*time.Millisecond - 2)
	s.silence()
	s.pass(10)
	s.wantAETH(204, ib.NAK(ib.NAKPSNSequenceError))
}

// A requester that has gone back retransmits the packets behind the lost one, too: that is no reason
// to wait the next time.
func TestLostRequest(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 200, 201, 202, 203, 204)
	s.in(s.message(201))
	s.wantAETH(200, ib.NAK(ib.NAKPSNSequenceError))
	s.pass(time.Millisecond)
	s.in(s.message(200))
	s.wantAETH(201, okAck)
	s.inWant(ibta.DropDuplicate, s.message(201))
	s.out = nil // acknowledged again
	s.in(s.message(202))
	s.in(s.message(204))
	s.wantAETH(203, ib.NAK(ib.NAKPSNSequenceError))
}

// A program sees requests in the order in which they were sent, even if they arrive in another:
// a WRITE's data is not there before the SEND in front of it has completed (IBTA 9.5).
func TestEarlyRequestsInOrder(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 1, 2)
	write := s.reth(s.packet(ib.OpWriteOnly, 201, 4), 100, 4)
	read := s.reth(s.packet(ib.OpReadRequest, 202, 0), 100, 4)
	for _, p := range []*ib.Packet{s.packet(ib.OpSendOnly, 203, 1), read, write} {
		s.inWant(ibta.Taken, p)
	}
	if n := s.host.lane.ReorderBytes(); n < 5 {
		t.Errorf("%d bytes are kept", n)
	}
	s.wantAETH(200, ib.NAK(ib.NAKPSNSequenceError))
	s.silence()
	if s.mr.Bytes()[100] != 0 {
		t.Fatal("a WRITE was carried out before what it follows")
	}
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantWC(2, verbs.StatusSuccess)
	if p := s.want(ib.OpReadResponseOnly, 202); !slices.Equal(p.Payload, []byte{201, 201, 201, 201}) {
		t.Errorf("the READ brought %v, want what was written before it", p.Payload)
	}
	s.wantAETH(203, okAck)
	if n := s.host.lane.ReorderBytes(); n != 0 {
		t.Errorf("%d bytes are kept still", n)
	}
	s.idle()
}

// Responses and acknowledgements that come before a response are kept too. As soon as one was
// late, the next is given time before its READ is asked for again.
func TestLateResponse(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpRead, 1, 3*mtu), s.wr(verbs.OpFetchAdd, 2, 8))
	s.want(ib.OpReadRequest, 100)
	s.want(ib.OpFetchAdd, 103)
	s.in(s.packet(ib.OpReadResponseMiddle, 101, mtu))
	s.want(ib.OpReadRequest, 100) // at first it is taken for lost
	s.want(ib.OpFetchAdd, 103)
	s.pass(time.Millisecond)
	s.in(s.packet(ib.OpReadResponseFirst, 100, mtu))
	s.in(s.packet(ib.OpReadResponseLast, 102, mtu))
	s.wantWC(1, verbs.StatusSuccess)
	s.post(s.send(3, 0))
	s.want(ib.OpSendOnly, 104)
	s.ack(104)
	s.pass(2*time.Millisecond - 1)
	s.silence()
	s.in(s.packet(ib.OpAtomicAck, 103, 0))
	s.wantWC(2, verbs.StatusSuccess)
	s.wantWC(3, verbs.StatusSuccess)
	s.idle()
}

// Atomics and READs behind a response that is missing are kept with WRITEs between them.
func TestEarlyResponsesInOrder(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.MaxRdAtomic = 4 })
	s.post(s.wr(verbs.OpRead, 1, 1), s.wr(verbs.OpWrite, 2, 1), s.wr(verbs.OpFetchAdd, 3, 8),
		s.wr(verbs.OpRead, 4, 2*mtu))
	s.out = nil
	s.in(s.packet(ib.OpReadResponseFirst, 103, mtu))
	s.in(s.packet(ib.OpAtomicAck, 102, 0))
	s.in(s.packet(ib.OpReadResponseLast, 104, mtu))
	s.inWant(ibta.DropSequence, s.packet(ib.OpReadResponseOnly, 101, 0)) // a WRITE has none
	s.out = nil
	if len(s.wcs) != 0 {
		t.Fatal("something has completed before the first READ")
	}
	s.in(s.packet(ib.OpReadResponseOnly, 100, 1))
	for id := range uint64(4) {
		s.wantWC(1+id, verbs.StatusSuccess)
	}
	if n := s.host.lane.ReorderBytes(); n != 0 {
		t.Errorf("%d bytes are kept still", n)
	}
	s.idle()
}

// A peer that sends as much out of order as it can, over any number of queue pairs, leaves as much to the next
// peer, and that one half of it to a third.
func TestEarlyShares(t *testing.T) {
	s := start(t, verbs.RC)
	const full = 4096
	var taken []int
	for peer := range 3 {
		before := s.host.lane.ReorderBytes()
		for {
			c := s.q.Config
			c.Num, c.Recv = 0, nil
			s.q = s.host.newQP(c)
			attr := s.attr
			attr.AH.DGID[15] = byte(100 + peer)
			s.up(attr, verbs.StateRTS)
			n := 0
			for psn := recvPSN.Next(); s.q.HandlePacket(s.now, s.packet(ib.OpSendMiddle, psn, full),
				nil) == ibta.Taken; psn = psn.Next() {
				n++
			}
			if n == 0 {
				break
			}
		}
		taken = append(taken, s.host.lane.ReorderBytes()-before)
	}
	for peer, want := range []int{32 << 20, 16 << 20, 8 << 20} {
		if got := taken[peer]; got > want+4*full || got < want-4*full {
			t.Errorf("peer %d has %d bytes, want %d", peer, got, want)
		}
	}
	for _, q := range s.host.qps {
		q.Destroy()
	}
	if n := s.host.lane.ReorderBytes(); n != 0 {
		t.Errorf("%d bytes are kept of queue pairs that are gone", n)
	}
}

// The packets that a queue pair keeps are bounded, and so are the packets of all queue pairs of a device together.
// Their memory is given back when they end.
func TestEarlyBounds(t *testing.T) {
	s := start(t, verbs.RC)
	const full = 4096 // kept packets are handled in order
	ahead := func() (n int) {
		for psn := recvPSN.Next(); ; psn = psn.Next() {
			p := s.packet(ib.OpSendMiddle, psn, full)
			if s.q.HandlePacket(s.now, p, nil) != ibta.Taken {
				return n
			}
			n += full
		}
	}
	total, pairs := 0, 0
	for pairs = range 100 {
		n := ahead()
		if n > 2<<20 || pairs == 0 && n < 1<<20 {
			t.Fatalf("%d bytes of payload are kept, want up to 2 MiB", n)
		}
		total += n
		if n == 0 {
			break
		}
		c := s.q.Config
		c.Num, c.Recv = 0, nil
		s.q = s.host.newQP(c)
		s.up(s.attr, verbs.StateRTS)
	}
	if total > 32<<20 || s.host.lane.ReorderBytes() > 32<<20 || pairs < 16 {
		t.Errorf("%d queue pairs keep %d bytes of payload, want up to 32 MiB", pairs, total)
	}
	for _, q := range s.host.qps {
		q.Destroy()
	}
	if n := s.host.lane.ReorderBytes(); n != 0 {
		t.Errorf("%d bytes are kept of queue pairs that are gone", n)
	}
}

// A forged request, whose PSN is far ahead, is not kept: it would be carried out some day in the
// place of the peer's.
func TestForgedEarlyRequest(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 200, 201)
	s.inWant(ibta.DropSequence, s.message(recvPSN.Add(1025)))
	s.wantAETH(recvPSN, ib.NAK(ib.NAKPSNSequenceError))
	for i := range 2 {
		p := s.message(recvPSN.Add(i))
		p.AckReq = true
		s.in(p)
		s.wantAETH(recvPSN.Add(i), okAck)
		s.wantWC(200+uint64(i), verbs.StatusSuccess)
	}
	s.idle()
}

// Nor does a forged request change the tolerance for late packets: the peer's next late packet is
// known as such.
func TestForgedRequestTeachesNothing(t *testing.T) {
	for _, when := range []string{"first of all", "while nothing is missing", "while something is missing",
		"while something is waited for"} {
		s := start(t, verbs.RC)
		s.receives(8, 200, 201, 202, 203, 204, 205)
		psn := recvPSN
		var told, waited time.Duration
		if when == "while something is waited for" {
			s = late(t)
			psn, waited = 203, 2*time.Millisecond-1
		}
		forged := func(answered bool) {
			t.Helper()
			s.inWant(ibta.DropSequence, s.message(psn.Add(1<<22)))
			if answered {
				s.wantAETH(psn, ib.NAK(ib.NAKPSNSequenceError))
			}
			s.silence()
		}
		switch when {
		case "first of all":
			forged(true)
			s.in(s.message(psn))
			s.wantWC(uint64(psn), verbs.StatusSuccess)
			psn++
		case "while nothing is missing":
			s.in(s.message(psn))
			s.wantWC(uint64(psn), verbs.StatusSuccess)
			psn++
			forged(true)
			forged(false)
			s.in(s.message(psn))
			s.wantWC(uint64(psn), verbs.StatusSuccess)
			psn++
		}
		s.in(s.message(psn + 1))
		if waited == 0 {
			s.wantAETH(psn, ib.NAK(ib.NAKPSNSequenceError))
			told = time.Millisecond
		}
		if when == "while something is missing" || waited > 0 {
			forged(false)
		}
		s.pass(told + waited)
		s.in(s.message(psn))
		if waited == 0 {
			s.wantAETH(psn+1, okAck)
		}
		s.in(s.message(psn + 2))
		for i := range ib.PSN(3) {
			s.wantWC(uint64(psn+i), verbs.StatusSuccess)
		}
		s.silence()
		s.in(s.message(psn + 4)) // the one before it is late, too: no NAK yet
		s.silence()
	}
}

// A request that comes in one train with the requests that overtook it gets no NAK: the NAK for it
// has not left. The requests that it would have acknowledged are acknowledged.
func TestOvertakenInOneTrain(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 200, 201, 202, 203, 204, 205, 206, 207)
	train := func(packets ...*ib.Packet) {
		for _, p := range packets {
			s.q.HandlePacket(s.now, p, arrival)
		}
		s.drain()
	}
	train(s.message(201), s.message(202), s.message(200))
	train(s.packet(ib.OpSendOnly, 203, 1), s.message(205), s.message(204))
	s.wantAETH(203, okAck)
	for id := range uint64(6) {
		s.wantWC(200+id, verbs.StatusSuccess)
	}
	s.silence()
	if n := s.host.lane.Counters.NAKSent; n != 0 {
		t.Errorf("%d NAKs were sent, it says", n)
	}
	// In a train of its own it is.
	train(s.message(207))
	s.wantAETH(206, ib.NAK(ib.NAKPSNSequenceError))
	train(s.message(206))
	s.wantWC(206, verbs.StatusSuccess)
	s.wantWC(207, verbs.StatusSuccess)
	s.wantAETH(207, okAck)
	if n := s.host.lane.Counters.NAKSent; n != 1 {
		t.Errorf("%d NAKs were sent, it says", n)
	}
}

// A responder that has got a forged request not so far ahead sends a NAK for a PSN that the requester
// has not sent yet: so it has all packets that were sent.
func TestNAKForWhatWasNotSent(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1), s.send(2, 1))
	s.want(ib.OpSendOnly, 100)
	s.want(ib.OpSendOnly, 101)
	s.nak(102, ib.NAK(ib.NAKPSNSequenceError))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantWC(2, verbs.StatusSuccess)
	s.post(s.send(3, 1))
	s.want(ib.OpSendOnly, 102)
	s.inWant(ibta.DropGhost, s.packet(ib.OpAck, 103, 0)) // an ACK of it says nothing
}

// Packets that come early again and again take no new memory.
func TestEarlyAllocations(t *testing.T) {
	s := start(t, verbs.RC)
	psn := recvPSN
	write := func(psn ib.PSN) *ib.Packet {
		p := s.reth(s.packet(ib.OpWriteOnly, psn, mtu), 0, mtu)
		p.AckReq = false
		return p
	}
	packets := []*ib.Packet{write(0), write(0), write(0), write(0)}
	allocations := testing.AllocsPerRun(1000, func() {
		s.now++
		for _, i := range []int{1, 3, 2, 0} {
			packets[i].PSN = psn.Add(i)
			s.q.HandlePacket(s.now, packets[i], nil)
		}
		for s.q.NextPackets(s.now, s.batch) {
		}
		psn = psn.Add(4)
	})
	if allocations != 0 || verbs.PSN(psn) != s.q.Query().RQPSN {
		t.Errorf("%v allocations for three packets that come early", allocations)
	}
}

// Nor do packets that come early, and turn out to have PSNs of a READ's responses, more than are kept, or fewer.
func TestDroppedEarlyAllocations(t *testing.T) {
	for _, others := range []int{0, 1, 5} {
		s := start(t, verbs.RC)
		psn := recvPSN
		read, early := s.reth(s.packet(ib.OpReadRequest, 0, 0), 0, 2*mtu),
			s.reth(s.packet(ib.OpWriteOnly, 0, mtu), 0, mtu)
		allocations := testing.AllocsPerRun(1000, func() {
			s.now++
			for i := range 1 + others {
				early.PSN = psn.Add(1 + i)
				s.q.HandlePacket(s.now, early, nil)
			}
			read.PSN = psn
			s.q.HandlePacket(s.now, read, nil)
			for s.q.NextPackets(s.now, s.batch) {
			}
			psn = psn.Add(2 + others)
		})
		if n := s.host.lane.ReorderBytes(); allocations != 0 || verbs.PSN(psn) != s.q.Query().RQPSN || n != 0 {
			t.Errorf("%d packets behind the READ: %v allocations, %d bytes are kept", others, allocations, n)
		}
	}
}

// Requests behind a FLUSH to persistence that arrive before it, or while it is carried out, are kept,
// and carried out when the FLUSH is done and not before (IBTA annex A19). A NAK is sent only for
// requests that are still missing then.
func TestEarlyRequestBehindFlush(t *testing.T) {
	var flushes []*ibta.Flush
	s := start(t, verbs.RC)
	s.host.Device.Persist = func(f *ibta.Flush) { flushes = append(flushes, f) }
	s.receives(8, 1, 2, 3)
	flush := func(psn ib.PSN) *ib.Packet {
		p := s.reth(s.packet(ib.OpFlush, psn, 0), 0, 8)
		p.FETH.Placement = ib.PlacementPersistent
		return p
	}
	done := func() {
		t.Helper()
		f := flushes[0]
		flushes = flushes[1:]
		if !f.Done(true) {
			t.Fatal("a FLUSH was forgotten")
		}
		s.drain()
	}
	s.in(s.message(201))
	s.wantAETH(200, ib.NAK(ib.NAKPSNSequenceError))
	s.in(flush(200))
	for _, p := range []*ib.Packet{flush(202), s.packet(ib.OpSendOnly, 203, 1), s.packet(ib.OpSendOnly, 205, 1)} {
		s.inWant(ibta.Taken, p)
		s.inWant(ibta.DropDuplicate, p)
	}
	s.silence()
	done()
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpReadResponseOnly, 200)
	s.silence()
	done()
	s.wantWC(2, verbs.StatusSuccess)
	s.want(ib.OpReadResponseOnly, 202)
	s.wantAETH(204, ib.NAK(ib.NAKPSNSequenceError))
	s.in(flush(204))
	done()
	s.wantWC(3, verbs.StatusSuccess)
	s.want(ib.OpReadResponseOnly, 204)
	s.wantAETH(205, okAck)
	if n := s.host.lane.ReorderBytes(); n != 0 {
		t.Errorf("%d bytes are kept still", n)
	}
	s.idle()
}

// A request behind a FLUSH that finds no receive gets an RNR NAK as ever.
func TestFlushBeforeNoReceive(t *testing.T) {
	var flushes []*ibta.Flush
	s := start(t, verbs.RC)
	s.host.Device.Persist = func(f *ibta.Flush) { flushes = append(flushes, f) }
	p := s.reth(s.packet(ib.OpFlush, 200, 0), 0, 8)
	p.FETH.Placement = ib.PlacementPersistent
	s.in(p)
	s.in(s.packet(ib.OpSendOnly, 201, 1))
	s.inWant(ibta.DropSequence, s.message(recvPSN.Add(1025))) // too far ahead to be kept
	flushes[0].Done(true)
	s.drain()
	s.want(ib.OpReadResponseOnly, 200)
	s.wantAETH(201, ib.RNRNAK(ib.RNRTimer(s.attr.MinRNRTimer)))
	s.idle()
}

// The PSNs of a READ's responses stand for nothing else: packets kept for them are dropped, and
// packets behind them are not.
func TestEarlyRequestsWithinRead(t *testing.T) {
	for _, n := range []int{2, 12} { // more packets are kept than the READ has responses, and fewer
		s := start(t, verbs.RC)
		s.receives(8, 1, 2, 3)
		end := recvPSN.Add(n)
		for _, psn := range []ib.PSN{201, end, end + 1, end + 2} {
			s.in(s.message(psn))
		}
		s.out = nil // a NAK
		s.in(s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, uint32(n*mtu)))
		for id := range uint64(3) {
			s.wantWC(1+id, verbs.StatusSuccess)
		}
		if n := s.host.lane.ReorderBytes(); n != 0 {
			t.Errorf("%d bytes are kept still", n)
		}
	}
}

// A response that comes early is kept however much waits behind its READ, even if that has more
// PSNs than can be compared, which is half of 2^24.
func TestEarlyResponseBeforeMuch(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpRead, 1, 3*mtu), s.wr(verbs.OpFetchAdd, 2, 8))
	s.want(ib.OpReadRequest, 100)
	s.want(ib.OpFetchAdd, 103)
	for id := range uint64(8) {
		much := s.wr(verbs.OpWrite, 3+id, 8)
		much.SGL = nil
		for range 4 {
			much.SGL = append(much.SGL, verbs.SGE{Length: 1 << 28})
		}
		s.post(much)
	}
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseMiddle, 101, mtu))
}
