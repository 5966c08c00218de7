// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func TestSegmentation(t *testing.T) {
	s := start(t, verbs.RC)
	// A message longer than the path MTU goes as FIRST, MIDDLE, LAST, all but the last of
	// exactly the MTU; PSNs follow each other (IBTA 9.7.2, 9.3.3).
	s.post(s.send(1, 2*mtu+7))
	for i, op := range []ib.Operation{ib.OpSendFirst, ib.OpSendMiddle, ib.OpSendLast} {
		p := s.want(op, sendPSN.Add(i))
		if want := []int{mtu, mtu, 7}[i]; len(p.Payload) != want {
			t.Errorf("packet %d has %d bytes, want %d", i, len(p.Payload), want)
		}
		if i == 2 && !p.AckReq {
			t.Error("the last packet asks for no acknowledgement")
		}
	}
	s.silence()
	// An acknowledgement of a packet acknowledges all before it (IBTA 9.7.5.1.2).
	s.ack(102)
	s.wantWC(1, verbs.StatusSuccess)
	// A message without data is one ONLY packet.
	s.post(s.send(2, 0))
	s.want(ib.OpSendOnly, 103)
	s.ack(103)
	s.wantWC(2, verbs.StatusSuccess)
	s.idle()
}

// A divisible WRITE goes as messages of one packet each, of which the last has the immediate
// data, and is one work request nevertheless.
func TestDivisible(t *testing.T) {
	s := start(t, verbs.RC)
	wr := s.wr(verbs.OpWriteImm, 1, 5*mtu-4)
	wr.Flags |= verbs.Divisible
	wr.Imm = 0xabc
	s.post(wr)
	sizes := []int{mtu, mtu, mtu, mtu, mtu - 4}
	check := func(from int) {
		t.Helper()
		for i := from; i < len(sizes); i++ {
			op := ib.OpWriteOnly
			if i == 4 {
				op = ib.OpWriteOnlyImm
			}
			p := s.want(op, sendPSN.Add(i))
			if want := (ib.RETH{VA: 0x1000 + uint64(i)*mtu, RKey: 0x77, DMALen: uint32(sizes[i])}); p.RETH != want ||
				len(p.Payload) != sizes[i] {
				t.Errorf("packet %d has %d bytes for %+v, want %d for %+v", i, len(p.Payload), p.RETH, sizes[i], want)
			}
			if i > 0 && p.AckReq != (i == 4) {
				t.Errorf("packet %d: AckReq is %v", i, p.AckReq)
			}
			if i == 4 && p.Imm != 0xabc {
				t.Errorf("immediate data %#x", p.Imm)
			}
		}
		s.silence()
	}
	check(0)
	// From the lost one on they are sent again.
	s.nak(102, ib.NAK(ib.NAKPSNSequenceError))
	check(2)
	s.ack(104)
	s.wantWC(1, verbs.StatusSuccess)
	// A WRITE of a single packet is not changed.
	wr = s.wr(verbs.OpWrite, 2, mtu)
	wr.Flags |= verbs.Divisible
	s.post(wr)
	s.want(ib.OpWriteOnly, 105)
	s.ack(105)
	s.wantWC(2, verbs.StatusSuccess)
	// Other operations are not divided.
	wr = s.send(3, 2*mtu)
	wr.Flags |= verbs.Divisible
	s.post(wr)
	s.want(ib.OpSendFirst, 106)
	s.want(ib.OpSendLast, 107)
	s.ack(107)
	s.wantWC(3, verbs.StatusSuccess)
	s.idle()
}

// The acknowledgement of the last message is for all; messages that are not signaled have no
// completion (IBTA 10.8.2).
func TestCoalescedAck(t *testing.T) {
	s := start(t, verbs.RC)
	quiet := s.send(1, 1)
	quiet.Flags = 0
	s.post(quiet, s.send(2, 1), s.send(3, 1))
	for i := range 3 {
		s.want(ib.OpSendOnly, sendPSN.Add(i))
	}
	s.ack(102)
	s.wantWC(2, verbs.StatusSuccess)
	s.wantWC(3, verbs.StatusSuccess)
	// Acknowledgements that come again, of PSNs that were never sent, or from long ago have no effect.
	for _, psn := range []ib.PSN{102, 103, 50} {
		s.ack(psn)
	}
	s.idle()
}

func TestSequenceErrorNAK(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1), s.send(2, 1), s.send(3, 1))
	s.out = nil
	// A NAK acknowledges the packets before its PSN; from there on everything is sent again
	// (IBTA 9.7.5.2.3).
	s.nak(101, ib.NAK(ib.NAKPSNSequenceError))
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpSendOnly, 101)
	s.want(ib.OpSendOnly, 102)
	// Late acknowledgements of the first sending count.
	s.ack(102)
	s.wantWC(2, verbs.StatusSuccess)
	s.wantWC(3, verbs.StatusSuccess)
	s.idle()
}

// Without progress, a NAK counts against the retries (IBTA 9.7.5.2.3, 9.9.2.1).
func TestSequenceErrorRetries(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1))
	for range 4 {
		s.want(ib.OpSendOnly, 100)
		s.now++ // a round trip
		s.nak(100, ib.NAK(ib.NAKPSNSequenceError))
	}
	s.wantWC(1, verbs.StatusRetryExceeded)
	s.wantState(verbs.StateError)
	s.idle()
}

// A NAK for a packet that is on its way once more does not have it sent a third time, until a round trip has passed.
func TestSequenceErrorEarly(t *testing.T) {
	const rtt = 5 * time.Millisecond
	for _, arrives := range []bool{true, false} {
		s := start(t, verbs.RC)
		s.post(s.send(1, 1))
		s.out = nil
		s.pass(rtt)
		s.ack(100)
		s.wantWC(1, verbs.StatusSuccess)
		s.post(s.send(2, 1), s.send(3, 1))
		s.out = nil
		s.pass(rtt)
		s.nak(101, ib.NAK(ib.NAKPSNSequenceError))
		s.want(ib.OpSendOnly, 101)
		s.want(ib.OpSendOnly, 102)
		s.pass(rtt - 1)
		s.nak(101, ib.NAK(ib.NAKPSNSequenceError))
		s.silence()
		if arrives {
			s.ack(102)
			s.wantWC(2, verbs.StatusSuccess)
			s.wantWC(3, verbs.StatusSuccess)
			s.pass(rtt)
		} else {
			s.pass(1)
			s.want(ib.OpSendOnly, 101)
			s.want(ib.OpSendOnly, 102)
			if n := s.q.Counts.Timeouts; n != 0 {
				t.Errorf("%d timeouts", n)
			}
			s.ack(102)
			s.wantWC(2, verbs.StatusSuccess)
			s.wantWC(3, verbs.StatusSuccess)
		}
		s.idle()
	}
}

// A NAK's code becomes the status of its work request; the work requests behind it are flushed
// in order, and the queue pair is in ERR (IBTA 9.7.5.2, 10.3.1).
func TestFatalNAKs(t *testing.T) {
	for code, status := range map[ib.NAKCode]verbs.Status{
		ib.NAKInvalidRequest:         verbs.StatusRemoteInvalidRequestError,
		ib.NAKRemoteAccessError:      verbs.StatusRemoteAccessError,
		ib.NAKRemoteOperationalError: verbs.StatusRemoteOperationError,
		ib.NAKCode(9):                verbs.StatusBadResponseError, // reserved
	} {
		t.Run(code.String(), func(t *testing.T) {
			s := start(t, verbs.RC)
			s.receives(8, 50, 51)
			quiet := s.send(3, 1)
			quiet.Flags = 0
			s.post(s.send(1, 1), s.send(2, 1), quiet, s.send(4, 1))
			s.out = nil
			s.nak(101, ib.NAK(code))
			s.wantWC(1, verbs.StatusSuccess)
			s.wantWC(2, status)
			s.wantWC(3, verbs.StatusWRFlushError) // errors are reported, signaled or not
			s.wantWC(4, verbs.StatusWRFlushError)
			s.wantWC(50, verbs.StatusWRFlushError)
			s.wantWC(51, verbs.StatusWRFlushError)
			s.wantState(verbs.StateError)
			// Work requests that are posted in ERR are flushed.
			s.post(s.send(5, 1))
			s.wantWC(5, verbs.StatusWRFlushError)
			s.receives(8, 52)
			s.wantWC(52, verbs.StatusWRFlushError)
			// So are work requests before one that is refused.
			if n, err := s.q.PostSend([]verbs.SendWR{s.send(6, 1), {}}); n != 1 || err == nil {
				t.Errorf("%d posted, %v", n, err)
			}
			s.drain()
			s.wantWC(6, verbs.StatusWRFlushError)
			s.pass(time.Minute)
			s.idle()
		})
	}
}

// A reserved syndrome is a bad response.
func TestReservedSyndrome(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1))
	s.out = nil
	s.nak(100, 0x40)
	s.wantWC(1, verbs.StatusBadResponseError)
	s.idle()
}

func TestRNR(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1), s.send(2, 1))
	s.out = nil
	// The requester waits at least as long as the RNR NAK says, here 0.64 ms, before it
	// sends again (IBTA 9.7.5.2.8).
	s.nak(100, ib.RNRNAK(12))
	s.pass(640*time.Microsecond - 1)
	s.silence()
	s.pass(1)
	s.want(ib.OpSendOnly, 100)
	s.want(ib.OpSendOnly, 101)
	// Progress gives all retries back.
	s.nak(101, ib.RNRNAK(1))
	s.wantWC(1, verbs.StatusSuccess)
	// RNR retries: two, then the request fails.
	for range 2 {
		s.pass(10 * time.Microsecond)
		s.want(ib.OpSendOnly, 101)
		s.nak(101, ib.RNRNAK(1))
	}
	s.wantWC(2, verbs.StatusRNRRetryExceeded)
	s.wantState(verbs.StateError)
	s.idle()
}

// An RNR NAK for a SEND holds its time when the response of a READ before that is late, or lost.
func TestRNRBeforeResponse(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		s := start(t, verbs.RC)
		s.post(s.wr(verbs.OpRead, 1, 1), s.send(2, 1))
		s.out = nil
		s.nak(101, ib.RNRNAK(12))
		if arrives {
			s.in(s.packet(ib.OpReadResponseOnly, 100, 1))
			s.wantWC(1, verbs.StatusSuccess)
		}
		s.pass(640*time.Microsecond - 1)
		s.silence()
		s.pass(1)
		if !arrives {
			s.want(ib.OpReadRequest, 100)
			s.want(ib.OpSendOnly, 101)
			s.in(s.packet(ib.OpReadResponseOnly, 100, 1))
			s.wantWC(1, verbs.StatusSuccess)
		} else {
			s.want(ib.OpSendOnly, 101)
		}
		s.ack(101)
		s.wantWC(2, verbs.StatusSuccess)
		s.idle()
	}
}

// RNR retry count 7 is without end (IBTA 9.7.5.2.8); code 0 of the timer is 655.36 ms.
func TestRNRForever(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.RNRRetry = 7 })
	s.post(s.send(1, 1))
	for range 20 {
		s.want(ib.OpSendOnly, 100)
		s.nak(100, ib.RNRNAK(0))
		s.pass(655359 * time.Microsecond)
		s.silence()
		s.pass(time.Microsecond)
	}
	s.want(ib.OpSendOnly, 100)
	s.ack(100)
	s.wantWC(1, verbs.StatusSuccess)
	s.idle()
}

// A peer that is silent: the request fails after one timeout (4.096 µs * 2^Timeout) and
// RetryCount more of them, each four times as long as that at most (IBTA 9.7.6.1.3): the peer
// is given as much time as may be.
func TestRetryExceeded(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1), s.send(2, 1))
	timeout := 4 * 4096 * time.Nanosecond << 14
	s.pass(4*timeout - 1)
	if len(s.wcs) != 0 {
		t.Fatal("it failed too early")
	}
	if n := len(s.out); n < 4*4 {
		t.Errorf("%d packets sent, want those of once a timeout at least", n)
	}
	for _, p := range s.out {
		if p.Opcode != ib.RCSendOnly || p.PSN != 100 && p.PSN != 101 {
			t.Errorf("%v with PSN %d", p.Opcode, p.PSN)
		}
	}
	s.out = nil
	s.pass(10 * time.Millisecond)
	s.out = nil
	s.wantWC(1, verbs.StatusRetryExceeded)
	s.wantWC(2, verbs.StatusWRFlushError)
	s.wantState(verbs.StateError)
	if s.host.lane.Counters.RetryExceeded != 1 {
		t.Error("not counted")
	}
	if f := s.q.Failure(); f == nil || f.ID != 1 || !f.HasPSN || f.PSN != 100 || f.Detail != "retry_cnt 3, timeout 14" {
		t.Errorf("the failure says %+v, want the PSN and what was tried", f)
	}
	s.idle()
}

// A peer that is silent gets one packet, and no more of them before it has acknowledged something: earlier packets
// may still be on their way to it.
func TestSilent(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpWrite, 1, 3*mtu), s.send(2, 1), s.wr(verbs.OpRead, 3, 1))
	whole := func() {
		t.Helper()
		s.want(ib.OpWriteFirst, 100)
		s.want(ib.OpWriteMiddle, 101)
		s.want(ib.OpWriteLast, 102)
		s.want(ib.OpSendOnly, 103)
		s.want(ib.OpReadRequest, 104)
		s.silence()
	}
	whole()
	for wait := 8 * time.Millisecond; wait < 128*time.Millisecond; wait *= 2 {
		s.pass(min(wait, 4096*time.Nanosecond<<14))
		if p := s.want(ib.OpWriteFirst, 100); !p.AckReq {
			t.Error("it asks for no acknowledgement")
		}
		s.post(s.send(4, 1))
		s.silence()
	}
	s.ack(100)
	s.want(ib.OpWriteMiddle, 101)
	if p := s.want(ib.OpWriteLast, 102); !p.AckReq {
		t.Error("it asks for no acknowledgement of the last packet before it waits")
	}
	s.silence()
	s.ack(102)
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpSendOnly, 103)
	s.want(ib.OpReadRequest, 104)
	s.want(ib.OpSendOnly, 105)
	s.want(ib.OpSendOnly, 106)
	s.silence()
	s.in(s.packet(ib.OpReadResponseOnly, 104, 1))
	s.want(ib.OpSendOnly, 107)
	s.want(ib.OpSendOnly, 108)
	s.ack(108)
	for _, id := range []uint64{2, 3, 4, 4, 4, 4} {
		s.wantWC(id, verbs.StatusSuccess)
	}
	s.idle()
}

// Timeout 0 is without end (IBTA 11.2.5.2).
func TestNoTimeout(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.Timeout = 0 })
	s.post(s.send(1, 1))
	s.pass(time.Hour)
	s.out = nil
	s.ack(100)
	s.wantWC(1, verbs.StatusSuccess)
	s.idle()
	if s.q.Deadline() != 0 {
		t.Error("a timer runs while nothing is under way")
	}
}

func TestRead(t *testing.T) {
	s := start(t, verbs.RC)
	// A READ takes as many PSNs as its response has packets (IBTA 9.7.3.2).
	s.post(s.wr(verbs.OpRead, 1, 2*mtu+1), s.send(2, 1))
	p := s.want(ib.OpReadRequest, 100)
	if p.RETH != (ib.RETH{VA: 0x1000, RKey: 0x77, DMALen: 2*mtu + 1}) {
		t.Errorf("%+v", p.RETH)
	}
	s.want(ib.OpSendOnly, 103)
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseFirst, 100, mtu))
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseMiddle, 101, mtu))
	s.silence()
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseLast, 102, 1))
	if wc := s.wantWC(1, verbs.StatusSuccess); wc.Op != verbs.WCRead || wc.ByteLen != 2*mtu+1 {
		t.Errorf("%+v", wc)
	}
	if b := s.mr.Bytes(); b[0] != 101 || b[mtu] != 101 || b[2*mtu] != 103 || b[2*mtu+1] != 0 {
		t.Error("wrong bytes")
	}
	s.inWant(ibta.DropDuplicate, s.packet(ib.OpReadResponseLast, 102, 1))
	s.ack(103)
	s.wantWC(2, verbs.StatusSuccess)
	s.idle()
}

// An acknowledgement or a response beyond a missing response says that that was lost: the
// READ is requested again from there, once for each loss (IBTA 9.7.5.2.1). Responses before it
// are kept.
func TestImpliedNAK(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpRead, 1, 4*mtu))
	s.want(ib.OpReadRequest, 100)
	s.in(s.packet(ib.OpReadResponseFirst, 100, mtu))
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseMiddle, 102, mtu))
	if s.mr.Bytes()[2*mtu] != 0 {
		t.Error("a response landed out of order")
	}
	p := s.want(ib.OpReadRequest, 101)
	if p.RETH.VA != 0x1000+mtu || p.RETH.DMALen != 3*mtu {
		t.Errorf("%+v", p.RETH)
	}
	s.inWant(ibta.DropSequence, s.packet(ib.OpReadResponseMiddle, 102, mtu)) // twice
	s.silence()
	// The response begins anew; a late packet of the first response counts, too.
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseMiddle, 101, mtu))
	s.inWant(ibta.DropGhost, s.packet(ib.OpReadResponseFirst, 101, mtu))
	s.inWant(ibta.DropDuplicate, s.packet(ib.OpReadResponseMiddle, 102, mtu))
	// The next loss is a new one. As one response has come twice, this one is given time.
	s.post(s.send(2, 0))
	s.want(ib.OpSendOnly, 104)
	s.ack(104)
	s.silence()
	s.pass(100 * time.Microsecond)
	s.want(ib.OpReadRequest, 103)
	s.want(ib.OpSendOnly, 104)
	s.inWant(ibta.Taken, s.packet(ib.OpReadResponseOnly, 103, mtu))
	s.wantWC(1, verbs.StatusSuccess)
	s.ack(104)
	s.wantWC(2, verbs.StatusSuccess)
	s.idle()
}

// Parts of a large READ are requested one by one, and requested again as the same parts, even if
// the window has changed by then: responders answer a duplicate READ only within the first one
// (IBTA 9.7.5.1.4).
func TestReadParts(t *testing.T) {
	s := start(t, verbs.RC)
	s.mr = s.register(512<<10, everything)
	s.flow.SetWindow(256 << 10)
	s.post(s.wr(verbs.OpRead, 1, 512<<10))
	const part = 128 << 10 / mtu
	s.want(ib.OpReadRequest, 100)
	s.want(ib.OpReadRequest, 100+part)
	s.silence() // both places, and the window, are taken
	s.flow.SetWindow(1 << 20)
	s.nak(100, ib.NAK(ib.NAKPSNSequenceError))
	for i := range 2 {
		if p := s.want(ib.OpReadRequest, ib.PSN(100+i*part)); p.RETH.DMALen != part*mtu {
			t.Errorf("%d bytes asked for, want %d", p.RETH.DMALen, part*mtu)
		}
	}
	s.out = nil
	for i := range 512 << 10 / mtu {
		s.inWant(ibta.Taken, s.packet(ib.OpReadResponseMiddle, ib.PSN(100+i), mtu))
	}
	s.out = nil
	s.wantWC(1, verbs.StatusSuccess)
	s.idle()
}

// At most MaxRdAtomic READs and atomics are under way (IBTA 9.4.4, 11.2.5.2).
func TestReadDepth(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpRead, 1, 8), s.wr(verbs.OpFetchAdd, 2, 8), s.wr(verbs.OpRead, 3, 8), s.send(4, 1))
	s.want(ib.OpReadRequest, 100)
	s.want(ib.OpFetchAdd, 101)
	s.silence()
	s.in(s.packet(ib.OpReadResponseOnly, 100, 8))
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpReadRequest, 102)
	s.want(ib.OpSendOnly, 103)
	p := s.packet(ib.OpAtomicAck, 101, 0)
	p.AtomicAck.Orig = 42
	s.in(p)
	s.wantWC(2, verbs.StatusSuccess)
	if s.mr.Bytes()[0] != 42 && s.mr.Bytes()[7] != 42 {
		t.Error("the word before is not in its place")
	}
	s.in(s.packet(ib.OpReadResponseOnly, 102, 8))
	s.wantWC(3, verbs.StatusSuccess)
	s.ack(103)
	s.wantWC(4, verbs.StatusSuccess)
	s.idle()
}

// A READ that no place can ever come for is refused.
func TestNoReadDepth(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.MaxRdAtomic = 0 })
	if _, err := s.q.PostSend([]verbs.SendWR{s.wr(verbs.OpRead, 1, 8)}); err == nil {
		t.Error("no error")
	}
	s.idle()
}

// A fence waits for all READs and atomics before it (IBTA 10.8.3.3).
func TestFence(t *testing.T) {
	s := start(t, verbs.RC)
	fenced := s.send(2, 1)
	fenced.Flags |= verbs.Fence
	s.post(s.wr(verbs.OpRead, 1, 8), fenced)
	s.want(ib.OpReadRequest, 100)
	s.silence()
	s.in(s.packet(ib.OpReadResponseOnly, 100, 8))
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpSendOnly, 101)
	s.ack(101)
	s.wantWC(2, verbs.StatusSuccess)
	s.idle()
}

// Responses that do not fit their requests are bad (IBTA 9.9.2.2).
func TestBadResponses(t *testing.T) {
	for name, f := range map[string]func(s *script) *ib.Packet{
		"short":        func(s *script) *ib.Packet { return s.packet(ib.OpReadResponseOnly, 100, 7) },
		"long":         func(s *script) *ib.Packet { return s.packet(ib.OpReadResponseOnly, 100, 9) },
		"of an atomic": func(s *script) *ib.Packet { return s.packet(ib.OpAtomicAck, 100, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, verbs.RC)
			s.post(s.wr(verbs.OpRead, 1, 8))
			s.out = nil
			s.in(f(s))
			s.wantWC(1, verbs.StatusBadResponseError)
			s.wantState(verbs.StateError)
			s.idle()
		})
	}
	// To a SEND there is no response: it is a ghost.
	s := start(t, verbs.RC)
	s.post(s.send(1, 1))
	s.out = nil
	s.inWant(ibta.DropGhost, s.packet(ib.OpReadResponseOnly, 100, 0))
	s.silence()
}

// Errors of the requester's own: status by cause (IBTA 10.10, 11.6.2). On unreliable
// transports the queue pair goes to SQE and receives on (IBTA 10.3.1.5).
func TestLocalErrors(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for name, c := range map[string]struct {
			status verbs.Status
			change func(s *script, wr *verbs.SendWR)
		}{
			"key":   {verbs.StatusLocalProtectionError, func(_ *script, wr *verbs.SendWR) { wr.SGL[0].LKey++ }},
			"range": {verbs.StatusLocalProtectionError, func(_ *script, wr *verbs.SendWR) { wr.SGL[0].Addr -= 1 }},
			"length": {verbs.StatusLocalLengthError, func(s *script, wr *verbs.SendWR) {
				for range 3 {
					wr.SGL = append(wr.SGL, wr.SGL[0])
				}
				for i := range wr.SGL {
					wr.SGL[i].Length = 1 << 31
				}
			}},
		} {
			t.Run(typ.String()+" "+name, func(t *testing.T) {
				s := start(t, typ)
				wrs := []verbs.SendWR{s.send(1, 1), s.send(2, 1), s.send(3, 1)}
				if typ == verbs.UD {
					ah, err := s.host.pd.CreateAH(verbs.AHAttr{DGID: s.peer.gid()})
					if err != nil {
						t.Fatal(err)
					}
					for i := range wrs {
						wrs[i].AH = ah
					}
				}
				c.change(s, &wrs[1])
				s.post(wrs...)
				s.want(ib.OpSendOnly, 100)
				if typ == verbs.RC {
					// The work requests in flight complete first: completions are in order.
					s.silence()
					s.ack(100)
				}
				s.wantWC(1, verbs.StatusSuccess)
				s.wantWC(2, c.status)
				s.wantWC(3, verbs.StatusWRFlushError)
				if typ == verbs.RC {
					s.wantState(verbs.StateError)
					s.idle()
					return
				}
				s.wantState(verbs.StateSQE)
				s.post(wrs[0])
				s.wantWC(1, verbs.StatusWRFlushError)
				s.state(verbs.StateRTS)
				s.post(wrs[0])
				s.out = nil
				s.wantWC(1, verbs.StatusSuccess)
				s.idle()
			})
		}
	}
}

// A region that ends while a message from it is in flight fails the work request, after the
// packets that had left were acknowledged.
func TestRegionEndsInTheMiddle(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		s := start(t, typ)
		s.batch.Limits.MaxPackets = 1
		s.flow.SetWindow(600) // RC: one packet at a time
		wr := s.send(1, 4*mtu)
		if _, err := s.q.PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		if !s.q.NextPackets(s.now, s.batch) {
			t.Fatal("no packet")
		}
		if err := s.mr.Close(); err != nil {
			t.Fatal(err)
		}
		s.drain()
		if typ == verbs.RC {
			s.ack(100)
			s.wantState(verbs.StateError)
		} else {
			s.wantState(verbs.StateSQE)
		}
		s.wantWC(1, verbs.StatusLocalProtectionError)
		s.idle()
	}
}

// SQD finishes work requests that were begun, holds the rest, and reports when it has drained
// (IBTA 10.3.1.6).
func TestSQD(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1))
	s.want(ib.OpSendOnly, 100)
	s.state(verbs.StateSQD)
	bad := s.send(3, 1)
	bad.SGL[0].LKey++
	s.post(s.send(2, 1), bad)
	s.silence()
	// A loss does not change that.
	s.pass(10 * time.Millisecond)
	s.want(ib.OpSendOnly, 100)
	s.silence()
	s.ack(100)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantEvent(verbs.EventSQDrained)
	s.modify(verbs.QPAttr{State: verbs.StateSQD, RetryCount: 5}, verbs.MaskRetryCount)
	s.pass(time.Second)
	s.silence()
	s.state(verbs.StateRTS)
	s.want(ib.OpSendOnly, 101)
	s.ack(101)
	s.wantWC(2, verbs.StatusSuccess)
	s.wantWC(3, verbs.StatusLocalProtectionError)
	s.idle()
}

// An idle queue pair has drained at once.
func TestSQDIdle(t *testing.T) {
	s := start(t, verbs.RC)
	s.state(verbs.StateSQD)
	s.wantEvent(verbs.EventSQDrained)
	s.idle()
	s.state(verbs.StateRTS)
	s.modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskSQDAsyncNotify)
	s.silence() // the event was not asked for
}

// PSNs are counted modulo 2^24 (IBTA 9.7.1).
func TestPSNWraps(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.SQPSN = 1<<24 - 2; o.attr.RQPSN = 1<<24 - 1 })
	s.post(s.send(1, 3*mtu), s.send(2, 1))
	s.want(ib.OpSendFirst, 1<<24-2)
	s.want(ib.OpSendMiddle, 1<<24-1)
	s.want(ib.OpSendLast, 0)
	s.want(ib.OpSendOnly, 1)
	s.nak(0, ib.NAK(ib.NAKPSNSequenceError))
	s.want(ib.OpSendLast, 0)
	s.want(ib.OpSendOnly, 1)
	s.ack(1)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantWC(2, verbs.StatusSuccess)
	s.receives(mtu*2, 50)
	s.in(s.packet(ib.OpSendFirst, 1<<24-1, mtu))
	s.in(s.packet(ib.OpSendLast, 0, 1))
	s.wantWC(50, verbs.StatusSuccess)
	s.wantAETH(0, ib.Acknowledge(ib.CreditsUnlimited))
	s.inWant(ibta.DropDuplicate, s.packet(ib.OpSendFirst, 1<<24-1, mtu))
	s.idle()
}

// Local operations are carried out and complete in order, and a work request
// before one of them requests its acknowledgement (IBTA 10.8.3).
func TestLocalOperations(t *testing.T) {
	s := start(t, verbs.RC)
	big := s.register(4096, everything|verbs.MWBind)
	mw, err := s.host.pd.AllocMW(verbs.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	key := mw.NextRKey()
	bind := verbs.SendWR{ID: 2, Op: verbs.OpBindMW, Flags: verbs.Signaled,
		Bind: &verbs.MWBindInfo{MW: mw, MR: big, RKey: key, Addr: big.Addr() + 100, Length: 50,
			Access: verbs.RemoteWrite}}
	quiet := s.send(1, 1)
	quiet.Flags = 0
	s.post(quiet, bind, s.send(3, 1))
	if p := s.want(ib.OpSendOnly, 100); !p.AckReq {
		t.Error("what stands before a local operation asks for no acknowledgement")
	}
	s.want(ib.OpSendOnly, 101)
	// The loss of a packet does not run the binding again.
	s.nak(100, ib.NAK(ib.NAKPSNSequenceError))
	s.want(ib.OpSendOnly, 100)
	s.want(ib.OpSendOnly, 101)
	if mw.RKey() != key {
		t.Errorf("key %x, want %x", mw.RKey(), key)
	}
	s.ack(100)
	if wc := s.wantWC(2, verbs.StatusSuccess); wc.Op != verbs.WCBindMW {
		t.Errorf("%v", wc.Op)
	}
	s.ack(101)
	s.wantWC(3, verbs.StatusSuccess)
	// The window works: within its bounds only.
	p := s.packet(ib.OpWriteOnly, 200, 50)
	p.RETH = ib.RETH{VA: big.Addr() + 100, RKey: key, DMALen: 50}
	s.inWant(ibta.Taken, p)
	s.wantAETH(200, ib.Acknowledge(ib.CreditsUnlimited))
	// LOCAL_INV ends it; a second one is an error of memory management.
	inv := verbs.SendWR{ID: 4, Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvKey: key}
	s.post(inv)
	s.wantWC(4, verbs.StatusSuccess)
	p.PSN = 201
	s.post(inv)
	s.wantWC(4, verbs.StatusMWBindError)
	s.wantState(verbs.StateError)
	s.idle()
}

// A local operation at the head of the send queue ends there and then, and holds up nothing behind it.
func TestBehindLocalOperation(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
		s := start(t, typ)
		big := s.register(4096, everything|verbs.MWBind)
		mw, err := s.host.pd.AllocMW(verbs.MWType2)
		if err != nil {
			t.Fatal(err)
		}
		bind := &verbs.MWBindInfo{MW: mw, MR: big, RKey: mw.NextRKey(), Addr: big.Addr(), Length: 50,
			Access: verbs.RemoteWrite}
		s.post(verbs.SendWR{ID: 1, Op: verbs.OpBindMW, Flags: verbs.Signaled, Bind: bind}, s.send(2, 1))
		s.wantWC(1, verbs.StatusSuccess)
		s.want(ib.OpSendOnly, 100)
		if typ == verbs.RC {
			s.ack(100)
		}
		s.wantWC(2, verbs.StatusSuccess)
		s.idle()
	}
}

// Invalid work requests are refused when they are posted (IBTA 11.4.1.1).
func TestRefused(t *testing.T) {
	rc, uc, ud, xrc := start(t, verbs.RC), start(t, verbs.UC), start(t, verbs.UD), start(t, verbs.XRCIni)
	long := rc.send(1, 1)
	long.SGL = make([]verbs.SGE, 5)
	read := rc.wr(verbs.OpRead, 1, 1)
	read.SGL, read.Inline = nil, []byte{1}
	flush := rc.wr(verbs.OpFlush, 1, 1)
	flush.FlushLevel = 0
	for name, c := range map[string]struct {
		s  *script
		wr verbs.SendWR
	}{
		"no operation":      {rc, verbs.SendWR{}},
		"unknown operation": {rc, verbs.SendWR{Op: 99}},
		"READ on UC":        {uc, uc.wr(verbs.OpRead, 1, 1)},
		"WRITE on UD":       {ud, ud.wr(verbs.OpWrite, 1, 1)},
		"UD without AH":     {ud, ud.send(1, 1)},
		"ATOMIC WRITE, XRC": {xrc, xrc.wr(verbs.OpAtomicWrite, 1, 8)},
		"FLUSH on XRC":      {xrc, xrc.wr(verbs.OpFlush, 1, 8)},
		"too many entries":  {rc, long},
		"too long inline":   {rc, verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, 65)}},
		"READ inline":       {rc, read},
		"BIND without":      {rc, verbs.SendWR{Op: verbs.OpBindMW}},
		"FLUSH of no level": {rc, flush},
	} {
		if n, err := c.s.q.PostSend([]verbs.SendWR{c.wr}); n != 0 || err == nil {
			t.Errorf("%s: %d posted, %v", name, n, err)
		}
	}
	for i := range 16 {
		if _, err := rc.q.PostSend([]verbs.SendWR{rc.send(uint64(i), 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rc.q.PostSend([]verbs.SendWR{rc.send(17, 1)}); err == nil {
		t.Error("a full queue takes one more")
	}
	s := start(t, verbs.RC, func(o *options) { o.last = verbs.StateRTR })
	if _, err := s.q.PostSend([]verbs.SendWR{s.send(1, 1)}); err == nil {
		t.Error("posted in RTR")
	}
}

// Wrong lengths of atomics are the requester's error (IBTA 10.10.2.2).
func TestAtomicLength(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpFetchAdd, 1, 7))
	s.wantWC(1, verbs.StatusLocalLengthError)
	s.idle()
}

// RESET drops everything without a word; the queue pair can be used again (IBTA 10.3.1.1).
func TestReset(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 50)
	s.post(s.send(1, 1), s.wr(verbs.OpRead, 2, 8))
	s.out = nil
	s.state(verbs.StateReset)
	s.idle()
	if !s.flow.Unused() {
		t.Error("the flow is still used")
	}
	again := s.attr
	again.RQPSN, again.SQPSN, again.MinRNRTimer = 7, 8, 0
	s.up(again, verbs.StateRTS)
	s.post(s.send(3, 1))
	s.want(ib.OpSendOnly, 8)
	s.ack(8)
	s.wantWC(3, verbs.StatusSuccess)
	s.inWant(ibta.DropNoReceive, s.packet(ib.OpSendOnly, 7, 1)) // the old receive is gone
	s.wantAETH(7, ib.RNRNAK(0))
}

// A program that had many messages acknowledged together is expected to post many: the first
// one leaves at once, the others wait for company.
func TestEager(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.config.Caps.MaxSendWR = 128 })
	fill := func(n int) (eager int) {
		t.Helper()
		for range n {
			if _, err := s.q.PostSend([]verbs.SendWR{s.send(0, 8)}); err != nil {
				t.Fatal(err)
			}
			if s.q.Eager() {
				eager++
				s.drain()
			}
		}
		s.drain()
		s.out = nil
		return eager
	}
	end := ib.PSN(sendPSN - 1)
	for i, want := range []int{8 + 1, 1 + 1, 1 + 1} {
		if got := fill(100); got != want {
			t.Errorf("round %d: %d of 100 posts leave at once, want %d", i, got, want)
		}
		end = end.Add(100)
		s.ack(end)
		s.wcs = nil
	}
	for i, want := range []int{1, 2} { // one by one from now on
		if got := fill(want); got != want {
			t.Errorf("lone messages %d: %d of %d leave at once", i, got, want)
		}
		end = end.Add(want)
		s.ack(end)
		s.wcs = nil
	}
	s.idle()
}

// However many entries work requests have, a batch has no more pieces than it has KiB.
func TestBatchPieces(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) {
		o.config.Caps.MaxSendWR, o.config.Caps.MaxSendSGE = 64, 32
		o.attr.PathMTU = verbs.MTU4096
	})
	mr := s.register(32*300, everything)
	for _, size := range []int{32, 33, 36, 64, 128, 256} {
		var sgl []verbs.SGE
		for j := range min(32, 4096/size) {
			sgl = append(sgl, mr.SGE(j*300, size))
		}
		wrs := make([]verbs.SendWR, 64)
		for i := range wrs {
			wrs[i] = verbs.SendWR{Op: verbs.OpWrite, SGL: sgl}
		}
		if _, err := s.q.PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		for s.q.NextPackets(s.now, s.batch) {
			pieces := 0
			for i := range s.batch.Len() {
				pieces += len(s.batch.Packet(i).Payload)
			}
			if pieces > 64 {
				t.Errorf("%d pieces of %d bytes each in one batch", pieces, size)
			}
		}
		s.ack(s.q.Query().SQPSN.Add(-1))
		s.wcs = nil
	}
}

// The longest message takes as many PSNs as it has packets, also where an int has 32 bits.
func TestLongestMessage(t *testing.T) {
	s := start(t, verbs.RC)
	w := s.wr(verbs.OpWrite, 1, 0)
	w.SGL = nil
	for range 4 { // that is more than the region: they overlap, or there is none
		w.SGL = append(w.SGL, verbs.SGE{Addr: s.mr.Addr(), Length: s.host.Device.MaxMsgSize / 4, LKey: s.mr.LKey()})
	}
	if _, err := s.q.PostSend([]verbs.SendWR{w}); err != nil {
		t.Fatal(err)
	}
	if got, want := ib.PSN(s.q.Query().SQPSN), sendPSN.Add(int(s.host.Device.MaxMsgSize/mtu)); got != want {
		t.Errorf("the next PSN is %d, want %d", got, want)
	}
}
