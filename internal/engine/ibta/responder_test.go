// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

var okAck = ib.Acknowledge(ib.CreditsUnlimited)

func TestReceive(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(3*mtu, 1, 2)
	s.in(s.packet(ib.OpSendFirst, 200, mtu))
	s.in(s.packet(ib.OpSendMiddle, 201, mtu))
	s.silence() // neither asked for an acknowledgement
	p := s.packet(ib.OpSendLastImm, 202, 5)
	p.Imm, p.SolicitedEvent = 0xabcd, true
	s.in(p)
	if !s.wcs[0].Solicited {
		t.Error("the solicited event is lost")
	}
	if wc := s.wantWC(1, verbs.StatusSuccess); wc.Op != verbs.WCRecv || wc.ByteLen != 2*mtu+5 ||
		wc.Flags != verbs.WithImm || wc.Imm != 0xabcd {
		t.Errorf("%+v", wc)
	}
	s.wantAETH(202, okAck)
	if s.q.Query().RQPSN != 203 {
		t.Error("expected PSN")
	}
	// A message without data takes a receive too.
	s.in(s.packet(ib.OpSendOnly, 203, 0))
	s.wantWC(2, verbs.StatusSuccess)
	s.wantAETH(203, okAck)
	s.idle()
}

// A gap is reported once; the packets behind it are kept in silence until the missing packet
// comes, also when the report was lost (IBTA 9.7.5.1.1). A requester that has gone back gets an
// acknowledgement of the kept packets at once.
func TestNAKOncePerGap(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(mtu+8, 1, 2, 3, 4)
	first := s.packet(ib.OpSendFirst, 201, mtu)
	s.inWant(ibta.Taken, first)
	clear(first.Payload) // the memory is the caller's again
	s.wantAETH(200, ib.NAK(ib.NAKPSNSequenceError))
	s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 203, 1))
	s.inWant(ibta.DropSequence, s.packet(ib.OpSendOnly, 203, 1)) // twice
	s.silence()
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(201, okAck)
	s.inWant(ibta.DropDuplicate, s.packet(ib.OpSendFirst, 201, mtu))
	s.silence()
	s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 204, 1))
	s.wantAETH(202, ib.NAK(ib.NAKPSNSequenceError))
	s.in(s.packet(ib.OpSendLast, 202, 1))
	for id := range uint64(3) {
		s.wantWC(2+id, verbs.StatusSuccess)
	}
	s.wantAETH(204, okAck)
	s.idle()
}

// SENDs and WRITEs that come again are acknowledged with the newest PSN and not carried
// out again (IBTA 9.7.5.1.4).
func TestDuplicates(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 1, 2)
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.in(s.reth(s.packet(ib.OpWriteOnly, 201, 4), 100, 4))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(200, okAck)
	s.wantAETH(201, okAck)
	copy(s.mr.Bytes()[100:], "home")
	s.inWant(ibta.DropDuplicate, s.packet(ib.OpSendOnly, 200, 1))
	s.wantAETH(201, okAck)
	s.inWant(ibta.DropDuplicate, s.reth(s.packet(ib.OpWriteOnly, 201, 4), 100, 4))
	s.wantAETH(201, okAck)
	if string(s.mr.Bytes()[100:104]) != "home" {
		t.Error("a duplicate was carried out")
	}
	s.idle()
}

// RNR NAK: the timer is MinRNRTimer, later packets are dropped in silence, and the same PSN
// is taken once a receive is there (IBTA 9.7.5.2.8).
func TestReceiverNotReady(t *testing.T) {
	for _, op := range []ib.Operation{ib.OpSendOnly, ib.OpWriteOnlyImm} {
		s := start(t, verbs.RC)
		p := s.reth(s.packet(op, 200, 4), 100, 4)
		s.inWant(ibta.DropNoReceive, p)
		s.wantAETH(200, ib.RNRNAK(12))
		s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 201, 1))
		s.silence()
		if s.mr.Bytes()[100] != 0 {
			t.Error("data was written before there was a receive")
		}
		s.receives(8, 1)
		s.inWant(ibta.Taken, p)
		s.wantWC(1, verbs.StatusSuccess)
		s.wantAETH(201, ib.RNRNAK(12)) // the kept message needs a receive, too
		s.idle()
	}
}

// A WRITE with immediate data of several packets takes its receive at the last one.
func TestWriteImmediateNotReady(t *testing.T) {
	s := start(t, verbs.RC)
	s.in(s.reth(s.packet(ib.OpWriteFirst, 200, mtu), 0, mtu+4))
	last := s.packet(ib.OpWriteLastImm, 201, 4)
	s.inWant(ibta.DropNoReceive, last)
	s.wantAETH(201, ib.RNRNAK(12))
	s.receives(8, 1)
	s.inWant(ibta.Taken, last)
	if wc := s.wantWC(1, verbs.StatusSuccess); wc.Op != verbs.WCRecvWriteImm || wc.ByteLen != mtu+4 {
		t.Errorf("%+v", wc)
	}
	s.wantAETH(201, okAck)
	s.idle()
}

// refusal is a request that is answered with a NAK and ends the connection: the NAK's code,
// the event for the program, and the status of a receive that was taken
// (IBTA 9.7.4.1, 9.9.3.1).
type refusal struct {
	code   ib.NAKCode
	event  verbs.EventType
	recv   verbs.Status // of the receive of 16 bytes that is posted
	packet func(s *script) []*ib.Packet
}

func one(f func(s *script) *ib.Packet) func(*script) []*ib.Packet {
	return func(s *script) []*ib.Packet { return []*ib.Packet{f(s)} }
}

func TestRefusals(t *testing.T) {
	const flushed = verbs.StatusWRFlushError
	invalid, access, operational := ib.NAKInvalidRequest, ib.NAKRemoteAccessError, ib.NAKRemoteOperationalError
	req, acc, fatal := verbs.EventQPRequestError, verbs.EventQPAccessError, verbs.EventQPFatal
	for name, c := range map[string]refusal{
		"MIDDLE without FIRST": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.packet(ib.OpSendMiddle, 200, mtu) })},
		"LAST without FIRST": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.packet(ib.OpWriteLast, 200, 1) })},
		"FIRST in a message": {invalid, req, verbs.StatusRemoteInvalidRequestError, func(s *script) []*ib.Packet {
			s.longReceive()
			return []*ib.Packet{s.packet(ib.OpSendFirst, 200, mtu), s.packet(ib.OpSendFirst, 201, mtu)}
		}},
		"READ in a message": {invalid, req, verbs.StatusRemoteInvalidRequestError, func(s *script) []*ib.Packet {
			s.longReceive()
			return []*ib.Packet{s.packet(ib.OpSendFirst, 200, mtu), s.reth(s.packet(ib.OpReadRequest, 201, 0), 0, 8)}
		}},
		"FIRST shorter than the MTU": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.packet(ib.OpSendFirst, 200, mtu-4) })},
		"ONLY longer than the MTU": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.packet(ib.OpSendOnly, 200, mtu+4) })},
		"LAST without data": {invalid, req, flushed, func(s *script) []*ib.Packet {
			return []*ib.Packet{s.reth(s.packet(ib.OpWriteFirst, 200, mtu), 0, 2*mtu), s.packet(ib.OpWriteLast, 201, 0)}
		}},
		"SEND longer than the receive": {invalid, req, verbs.StatusLocalLengthError,
			one(func(s *script) *ib.Packet { return s.packet(ib.OpSendOnly, 200, 17) })},
		"receive in no region": {operational, fatal, verbs.StatusLocalProtectionError, one(func(s *script) *ib.Packet {
			s.mr.Close()
			return s.packet(ib.OpSendOnly, 200, 1)
		})},
		"WRITE longer than announced": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpWriteOnly, 200, 9), 0, 8) })},
		"WRITE shorter than announced": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpWriteOnly, 200, 7), 0, 8) })},
		"WRITE with a wrong key": {access, acc, flushed, one(func(s *script) *ib.Packet {
			p := s.reth(s.packet(ib.OpWriteOnly, 200, 8), 0, 8)
			p.RETH.RKey++
			return p
		})},
		"WRITE beyond the region": {access, acc, flushed,
			one(func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpWriteOnly, 200, 8), 16<<10-7, 8) })},
		"WRITE around the end of all addresses": {access, acc, flushed, one(func(s *script) *ib.Packet {
			p := s.reth(s.packet(ib.OpWriteOnly, 200, 8), 0, 8)
			p.RETH.VA = 1<<64 - 4
			return p
		})},
		"WRITE to memory that allows none": {access, acc, flushed, one(func(s *script) *ib.Packet {
			s.mr = s.register(64, verbs.LocalWrite|verbs.RemoteRead)
			return s.reth(s.packet(ib.OpWriteOnly, 200, 8), 0, 8)
		})},
		"READ of memory that allows none": {access, acc, flushed, one(func(s *script) *ib.Packet {
			s.mr = s.register(64, verbs.LocalWrite|verbs.RemoteWrite)
			return s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 8)
		})},
		"READ of more than the most bytes": {invalid, req, flushed,
			one(func(s *script) *ib.Packet {
				return s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, memory.MaxMessage+1)
			})},
		"READ of the most bytes from a small region": {access, acc, flushed,
			one(func(s *script) *ib.Packet {
				return s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, memory.MaxMessage)
			})},
		"WRITE of more than the most bytes": {invalid, req, flushed,
			one(func(s *script) *ib.Packet {
				return s.reth(s.packet(ib.OpWriteFirst, 200, mtu), 0, memory.MaxMessage+1)
			})},
		"atomic at an odd address": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpFetchAdd, 200, 0), 4, 8) })},
		"atomic where none is allowed": {access, acc, flushed, one(func(s *script) *ib.Packet {
			s.mr = s.register(64, verbs.LocalWrite|verbs.RemoteWrite)
			return s.reth(s.packet(ib.OpFetchAdd, 200, 0), 0, 8)
		})},
		"ATOMIC WRITE at an odd address": {invalid, req, flushed,
			one(func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpAtomicWrite, 200, 8), 4, 8) })},
		"FLUSH of no kind": {invalid, req, flushed, one(func(s *script) *ib.Packet {
			p := s.reth(s.packet(ib.OpFlush, 200, 0), 0, 8)
			p.FETH.Placement = 0
			return p
		})},
		"FLUSH where none is allowed": {access, acc, flushed, one(func(s *script) *ib.Packet {
			s.mr = s.register(64, verbs.LocalWrite|verbs.RemoteWrite)
			return s.reth(s.packet(ib.OpFlush, 200, 0), 0, 8)
		})},
		"unknown operation": {invalid, req, flushed, one(func(s *script) *ib.Packet { return s.packet(0x1f, 200, 0) })},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, verbs.RC)
			s.receives(16, 1)
			packets := c.packet(s)
			for _, p := range packets {
				s.in(p)
			}
			last := packets[len(packets)-1].PSN
			s.wantAETH(last, ib.NAK(c.code))
			s.wantEvent(c.event)
			s.wantWC(1, c.recv)
			s.wantState(verbs.StateError)
			s.inWant(ibta.DropState, s.packet(ib.OpSendOnly, last, 1))
			s.idle()
		})
	}
}

// longReceive exchanges the posted receive for a longer one, which a FIRST packet fits.
func (s *script) longReceive() {
	s.Helper()
	s.state(verbs.StateReset)
	s.up(s.attr, verbs.StateRTS)
	s.receives(2*mtu, 1)
}

// Rights that the queue pair does not give make a request invalid, even if the region gives
// them (IBTA 9.7.4.1.3, 11.2.5.2).
func TestQueuePairAccess(t *testing.T) {
	for op, payload := range map[ib.Operation]int{ib.OpWriteOnly: 8, ib.OpReadRequest: 0, ib.OpFetchAdd: 0,
		ib.OpAtomicWrite: 8, ib.OpFlush: 0} {
		s := start(t, verbs.RC, func(o *options) { o.attr.Access = verbs.LocalWrite })
		s.in(s.reth(s.packet(op, 200, payload), 0, 8))
		s.wantAETH(200, ib.NAK(ib.NAKInvalidRequest))
		s.wantEvent(verbs.EventQPRequestError)
		s.idle()
	}
}

// Without data no key is looked at (IBTA 9.7.4.1.3).
func TestZeroLength(t *testing.T) {
	s := start(t, verbs.RC)
	s.inWant(ibta.Taken, s.packet(ib.OpWriteOnly, 200, 0))
	s.wantAETH(200, okAck)
	s.inWant(ibta.Taken, s.packet(ib.OpReadRequest, 201, 0))
	s.want(ib.OpReadResponseOnly, 201)
	s.idle()
}

func TestAnswerReads(t *testing.T) {
	s := start(t, verbs.RC)
	for i := range s.mr.Bytes() {
		s.mr.Bytes()[i] = byte(i / mtu)
	}
	s.in(s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 2*mtu+3))
	for i, op := range []ib.Operation{ib.OpReadResponseFirst, ib.OpReadResponseMiddle, ib.OpReadResponseLast} {
		p := s.want(op, recvPSN.Add(i))
		if p.Payload[0] != byte(i) || i == 2 && len(p.Payload) != 3 {
			t.Errorf("packet %d: %d bytes of %d", i, len(p.Payload), p.Payload[0])
		}
		if op != ib.OpReadResponseMiddle && p.AETH.MSN != 1 {
			t.Errorf("MSN %d", p.AETH.MSN)
		}
	}
	// The next request's PSN is beyond the responses. Asked again for a part, the READ runs
	// again (IBTA 9.7.5.1.4).
	s.inWant(ibta.DropDuplicate, s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, mtu+3))
	s.want(ib.OpReadResponseFirst, 201)
	s.want(ib.OpReadResponseLast, 202)
	// More than there was is not answered.
	s.inWant(ibta.DropAccess, s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 3*mtu))
	s.inWant(ibta.DropAccess, s.reth(s.packet(ib.OpReadRequest, 201, 0), 16<<10, 8))
	s.silence()
	s.in(s.packet(ib.OpSendOnly, 203, 0))
	s.wantAETH(203, ib.RNRNAK(12))
	s.idle()
}

// Atomics answer with the former value, run once, and answer duplicates with the
// saved result (IBTA 9.4.5, 9.7.5.1.4).
func TestAnswerAtomics(t *testing.T) {
	s := start(t, verbs.RC)
	word := func() uint64 { return binary.NativeEndian.Uint64(s.mr.Bytes()) }
	add := s.reth(s.packet(ib.OpFetchAdd, 200, 0), 0, 0)
	add.AtomicETH.Swap = 7
	s.in(add)
	if p := s.want(ib.OpAtomicAck, 200); p.AtomicAck.Orig != 0 || word() != 7 {
		t.Errorf("answer %d, word %d", p.AtomicAck.Orig, word())
	}
	swap := s.reth(s.packet(ib.OpCompareSwap, 201, 0), 0, 0)
	swap.AtomicETH.Compare, swap.AtomicETH.Swap = 7, 9
	s.in(swap)
	if p := s.want(ib.OpAtomicAck, 201); p.AtomicAck.Orig != 7 || word() != 9 || p.AETH.MSN != 2 {
		t.Errorf("answer %d, word %d, MSN %d", p.AtomicAck.Orig, word(), p.AETH.MSN)
	}
	for range 2 {
		s.inWant(ibta.DropDuplicate, add)
		if p := s.want(ib.OpAtomicAck, 200); p.AtomicAck.Orig != 0 || word() != 9 {
			t.Errorf("duplicate: answer %d, word %d", p.AtomicAck.Orig, word())
		}
	}
	write := s.reth(s.packet(ib.OpAtomicWrite, 202, 8), 0, 8)
	s.in(write)
	s.want(ib.OpReadResponseOnly, 202)
	s.mr.Bytes()[0]++
	before := word()
	s.inWant(ibta.DropDuplicate, write)
	s.want(ib.OpReadResponseOnly, 202)
	if word() != before {
		t.Error("a duplicate ATOMIC WRITE ran again")
	}
	// The answers of the last two are kept, as many as may be outstanding.
	s.inWant(ibta.DropDuplicate, add)
	s.in(s.reth(s.packet(ib.OpFlush, 203, 0), 0, 8))
	s.want(ib.OpReadResponseOnly, 203)
	s.idle()
}

// More READs and atomics than MaxDestRdAtomic at once make the last one invalid
// (IBTA 9.7.4.1.2); an answer to a duplicate takes no place.
func TestResponderDepth(t *testing.T) {
	s := start(t, verbs.RC)
	for i := range 3 {
		s.q.HandlePacket(s.now, s.reth(s.packet(ib.OpReadRequest, recvPSN.Add(i), 0), 0, 8), arrival)
	}
	s.drain()
	s.want(ib.OpReadResponseOnly, 200)
	s.want(ib.OpReadResponseOnly, 201)
	s.wantAETH(202, ib.NAK(ib.NAKInvalidRequest))
	s.wantEvent(verbs.EventQPRequestError)
	s.idle()

	s = start(t, verbs.RC)
	s.in(s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 8))
	s.want(ib.OpReadResponseOnly, 200)
	for _, p := range []*ib.Packet{s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 8),
		s.reth(s.packet(ib.OpReadRequest, 201, 0), 0, 8),
		s.reth(s.packet(ib.OpReadRequest, 202, 0), 0, 8)} {
		s.q.HandlePacket(s.now, p, arrival)
	}
	s.drain()
	for i := range 3 {
		s.want(ib.OpReadResponseOnly, recvPSN.Add(i))
	}
	s.idle()
}

// A READ asked for again from its middle, while its first answer is still on its way out,
// goes on from there, without a false last response and without taking two places.
func TestReadAgainFromTheMiddle(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.MaxDestRdAtomic = 1 })
	s.batch.Limits.MaxPackets = 1
	s.q.HandlePacket(s.now, s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 6*mtu), arrival)
	for i := range 2 {
		s.q.NextPackets(s.now, s.batch)
		if h := s.batch.Packet(0).Head; h[11] != byte(200+i) {
			t.Fatal("not the next response")
		}
	}
	s.in(s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 5*mtu))
	s.want(ib.OpReadResponseFirst, 201)
	for i := range 3 {
		s.want(ib.OpReadResponseMiddle, ib.PSN(202+i))
	}
	s.want(ib.OpReadResponseLast, 205)
	s.idle()
}

// A duplicate READ is answered as a part of one of the last MaxDestRdAtomic READs that were
// answered, with its key and at its addresses (IBTA 9.7.5.1.4). Everything else that looks like one is
// dropped: it would be a READ that no check of the queue pair ever allowed, or a way to try keys
// without an end.
func TestForgedDuplicateReads(t *testing.T) {
	for name, c := range map[string]struct {
		want   ibta.Reason
		forged func(s *script) *ib.Packet
	}{
		"of a SEND": {ibta.DropDuplicate,
			func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 8) }},
		"of an atomic": {ibta.DropDuplicate, func(s *script) *ib.Packet {
			s.in(s.reth(s.packet(ib.OpFetchAdd, 204, 0), 0, 8))
			s.want(ib.OpAtomicAck, 204)
			return s.reth(s.packet(ib.OpReadRequest, 204, 0), 0, 8)
		}},
		"of a READ before the last two": {ibta.DropDuplicate, func(s *script) *ib.Packet {
			for psn := ib.PSN(204); psn < 206; psn++ {
				s.in(s.reth(s.packet(ib.OpReadRequest, psn, 0), 0, 8))
				s.want(ib.OpReadResponseOnly, psn)
			}
			return s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 3*mtu)
		}},
		"with another key": {ibta.DropAccess, func(s *script) *ib.Packet {
			p := s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 3*mtu)
			p.RETH.RKey = s.register(16<<10, everything).RKey()
			return p
		}},
		"from another address": {ibta.DropAccess,
			func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpReadRequest, 201, 0), 0, 3*mtu) }},
		"of the wrong part": {ibta.DropAccess,
			func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpReadRequest, 202, 0), mtu, mtu) }},
		"beyond the end": {ibta.DropAccess,
			func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpReadRequest, 203, 0), 3*mtu, mtu+1) }},
		"of nothing, past the end": {ibta.DropAccess,
			func(s *script) *ib.Packet { return s.reth(s.packet(ib.OpReadRequest, 203, 0), 4*mtu, 0) }},
		"that is not allowed any more": {ibta.DropAccess, func(s *script) *ib.Packet {
			s.modify(verbs.QPAttr{State: verbs.StateRTS, Access: verbs.RemoteWrite}, verbs.MaskAccess)
			return s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 3*mtu)
		}},
		"whose region is gone": {ibta.DropAccess, func(s *script) *ib.Packet {
			p := s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 3*mtu)
			s.mr.Close()
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, verbs.RC)
			s.receives(0, 1)
			s.in(s.packet(ib.OpSendOnly, 200, 0))
			s.wantWC(1, verbs.StatusSuccess)
			s.wantAETH(200, okAck)
			s.in(s.reth(s.packet(ib.OpReadRequest, 201, 0), mtu, 3*mtu))
			for i := range 3 {
				s.want([]ib.Operation{ib.OpReadResponseFirst, ib.OpReadResponseMiddle, ib.OpReadResponseLast}[i],
					ib.PSN(201+i))
			}
			s.inWant(c.want, c.forged(s))
			s.wantState(verbs.StateRTS)
			s.idle()
		})
	}
}

// A queue pair that never allowed a READ answers no duplicate of one.
func TestDuplicateReadOfQueuePairWithoutAccess(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.attr.Access = verbs.RemoteWrite })
	s.in(s.reth(s.packet(ib.OpWriteOnly, 200, 8), 0, 8))
	s.wantAETH(200, okAck)
	s.inWant(ibta.DropDuplicate, s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 8))
	s.idle()
}

// An acknowledgement that is due goes out although a READ is answered again before it.
func TestAckBehindDuplicateRead(t *testing.T) {
	s := start(t, verbs.RC)
	read := s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 8)
	s.in(read)
	s.want(ib.OpReadResponseOnly, 200)
	s.q.HandlePacket(s.now, s.reth(s.packet(ib.OpWriteOnly, 201, 8), 0, 8), arrival)
	s.in(read)
	s.want(ib.OpReadResponseOnly, 200)
	s.wantAETH(201, okAck)
	s.idle()
}

// An acknowledgement of a duplicate does not cover a READ behind it, whose responses may
// have been lost.
func TestAckOfDuplicateBeforeRead(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 1)
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(200, okAck)
	s.in(s.reth(s.packet(ib.OpReadRequest, 201, 0), 0, 8))
	s.want(ib.OpReadResponseOnly, 201)
	s.inWant(ibta.DropDuplicate, s.packet(ib.OpSendOnly, 200, 1))
	s.wantAETH(200, okAck)
	s.idle()
}

// The region that a READ is answered from goes meanwhile.
func TestReadSourceEnds(t *testing.T) {
	s := start(t, verbs.RC)
	s.q.HandlePacket(s.now, s.reth(s.packet(ib.OpReadRequest, 200, 0), 0, 3*mtu), arrival)
	s.batch.Limits.MaxPackets = 1
	s.q.NextPackets(s.now, s.batch)
	s.mr.Close()
	s.drain()
	s.wantAETH(201, ib.NAK(ib.NAKRemoteOperationalError))
	s.wantState(verbs.StateError)
	s.idle()
}

// The region that a duplicate READ is answered from goes meanwhile, as where the requester has had the first
// answer and has ended a window then. The queue pair goes on.
func TestDuplicateReadSourceEnds(t *testing.T) {
	s := start(t, verbs.RC)
	other := s.register(3*mtu, everything)
	read := s.packet(ib.OpReadRequest, 200, 0)
	read.RETH = ib.RETH{VA: other.Addr(), RKey: other.RKey(), DMALen: 3 * mtu}
	s.in(read)
	s.want(ib.OpReadResponseFirst, 200)
	s.want(ib.OpReadResponseMiddle, 201)
	s.want(ib.OpReadResponseLast, 202)
	s.q.HandlePacket(s.now, read, arrival)
	other.Close()
	s.in(s.reth(s.packet(ib.OpReadRequest, 203, 0), 0, 8))
	s.want(ib.OpReadResponseOnly, 203)
	s.wantState(verbs.StateRTS)
	s.idle()
}

// The event of a connection's first packet comes in RTR only (IBTA 11.6.3.2).
func TestCommunicationEstablished(t *testing.T) {
	s := start(t, verbs.RC, func(o *options) { o.last = verbs.StateRTR })
	s.receives(8, 1, 2)
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantEvent(verbs.EventCommEstablished)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(200, okAck)
	s.in(s.packet(ib.OpSendOnly, 201, 1))
	s.wantWC(2, verbs.StatusSuccess)
	s.wantAETH(201, okAck)
	s.idle()
}

// A packet of another transport, partition or state is dropped (IBTA 9.6.1).
func TestPacketChecks(t *testing.T) {
	s := start(t, verbs.RC)
	p := s.packet(ib.OpSendOnly, 200, 1)
	p.PKey = 0x8001
	s.inWant(ibta.DropPKey, p)
	p.PKey, p.Opcode = ib.DefaultPKey, ib.UCSendOnly
	s.inWant(ibta.DropTransport, p)
	s.state(verbs.StateError)
	s.inWant(ibta.DropState, s.packet(ib.OpSendOnly, 200, 1))
	i := start(t, verbs.RC, func(o *options) { o.last = verbs.StateInit })
	i.inWant(ibta.DropState, i.packet(ib.OpSendOnly, 200, 1))
	s.silence()
}

// Shared receive queues: messages take the oldest receive, the limit's event comes once
// and disarms it; a queue pair in ERR leaves the receives where they are and reports that it
// took its last (IBTA 10.2.9).
func TestSharedReceiveQueue(t *testing.T) {
	srq := &queue.RecvQueue{PD: 1, MaxWR: 8, MaxSGE: 1, Shared: true, Limit: 2, Owner: "srq"}
	s := start(t, verbs.RC, func(o *options) { o.config.Recv = srq })
	if _, err := s.q.PostRecv([]verbs.RecvWR{{}}); err == nil {
		t.Error("a queue pair with a shared queue takes receives")
	}
	for id := range uint64(4) {
		if _, err := srq.Post([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{s.mr.SGE(0, 8)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		s.in(s.packet(ib.OpSendOnly, recvPSN.Add(i), 1))
		s.wantWC(uint64(i), verbs.StatusSuccess)
		s.wantAETH(recvPSN.Add(i), okAck)
		if i == 2 { // one is left, below two
			if len(s.evs) == 0 || s.evs[0].Owner != "srq" {
				t.Error("the event is not the queue's")
			}
			s.wantEvent(verbs.EventSRQLimitReached)
		}
		s.silence()
	}
	s.in(s.packet(ib.OpSendFirst, 203, mtu)) // longer than the receive
	s.wantAETH(203, ib.NAK(ib.NAKInvalidRequest))
	s.wantWC(3, verbs.StatusLocalLengthError)
	s.wantEvent(verbs.EventQPRequestError)
	s.wantEvent(verbs.EventQPLastWQEReached)
	s.idle()
}

// The receives of a shared queue lie in its own protection domain.
func TestSharedReceiveQueueDomain(t *testing.T) {
	srq := &queue.RecvQueue{PD: 7, MaxWR: 8, MaxSGE: 1, Shared: true}
	s := start(t, verbs.RC, func(o *options) { o.config.Recv = srq })
	buf := make([]byte, 8)
	r, err := s.host.Device.Memory.Register(7, buf, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	srq.Post([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{{Addr: r.Addr(), Length: 8, LKey: r.Key()}}}})
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(200, okAck)
	s.idle()
}

// XRC: the request names the shared receive queue, whose domain and completion queue are
// used; an unknown queue makes the request invalid (IBTA annex A14).
func TestXRC(t *testing.T) {
	srq := &queue.RecvQueue{PD: 1, MaxWR: 8, MaxSGE: 1, Shared: true, Num: srqn}
	domain := &queue.Domain{Queues: map[uint32]*queue.RecvQueue{srqn: srq}}
	s := start(t, verbs.XRCTgt, func(o *options) { o.config.Domain = domain })
	s.inWant(ibta.DropNoReceive, s.packet(ib.OpSendOnly, 200, 1))
	s.wantAETH(200, ib.RNRNAK(12))
	srq.Post([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{s.mr.SGE(0, 8)}}})
	s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(200, okAck)
	s.inWant(ibta.Taken, s.reth(s.packet(ib.OpReadRequest, 201, 0), 0, 8))
	s.want(ib.OpReadResponseOnly, 201)
	s.inWant(ibta.DropGhost, s.packet(ib.OpAck, 100, 0)) // a target requests nothing
	p := s.packet(ib.OpSendOnly, 202, 1)
	p.XRCETH.SRQN++
	s.in(p)
	s.wantAETH(202, ib.NAK(ib.NAKInvalidRequest))
	s.wantEvent(verbs.EventQPRequestError)
	s.idle()

	i := start(t, verbs.XRCIni)
	wr := i.send(1, 1)
	wr.SRQN = 1234
	i.post(wr)
	if p := i.want(ib.OpSendOnly, 100); p.XRCETH.SRQN != 1234 || p.Opcode != ib.XRCSendOnly {
		t.Errorf("%v for queue %d", p.Opcode, p.XRCETH.SRQN)
	}
	i.inWant(ibta.DropInvalid, i.packet(ib.OpSendOnly, 200, 1)) // an initiator answers nothing
	i.ack(100)
	i.wantWC(1, verbs.StatusSuccess)
	i.idle()
}

// UC: no acknowledgement ever; a message with a gap is dropped and its receive taken by the
// next one; requests that cannot be carried out are dropped in silence (IBTA 9.8.2).
func TestUnreliableConnection(t *testing.T) {
	s := start(t, verbs.UC)
	s.inWant(ibta.DropNoReceive, s.packet(ib.OpSendOnly, 200, 1))
	s.receives(3*mtu, 1, 2)
	s.inWant(ibta.Taken, s.packet(ib.OpSendFirst, 201, mtu))
	s.inWant(ibta.DropSequence, s.packet(ib.OpSendLast, 203, 1))    // 202 is lost
	s.inWant(ibta.DropInvalid, s.packet(ib.OpSendMiddle, 204, mtu)) // of the same
	s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 210, 3))           // the next begins
	if wc := s.wantWC(1, verbs.StatusSuccess); wc.ByteLen != 3 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	p := s.reth(s.packet(ib.OpWriteFirst, 211, mtu), 0, 2*mtu)
	p.RETH.RKey++
	s.inWant(ibta.DropAccess, p)
	s.inWant(ibta.DropInvalid, s.packet(ib.OpWriteLast, 212, mtu))
	s.inWant(ibta.Taken, s.reth(s.packet(ib.OpWriteOnly, 213, 8), 0, 8))
	s.inWant(ibta.DropInvalid, s.packet(0x0c, 214, 0)) // a READ does not exist here
	s.wantState(verbs.StateRTS)
	s.idle()
}

// UC: a message that is longer than the receive is dropped as a whole, and the next one has
// its receive (IBTA 9.9.3, class D).
func TestUnreliableTooLong(t *testing.T) {
	s := start(t, verbs.UC)
	s.receives(3*mtu, 1)
	psn := recvPSN
	for range 3 {
		s.inWant(ibta.Taken, s.packet(ib.OpSendFirst, psn, mtu))
		for i := range 2 {
			s.inWant(ibta.Taken, s.packet(ib.OpSendMiddle, psn.Add(1+i), mtu))
		}
		s.inWant(ibta.DropTooLong, s.packet(ib.OpSendMiddle, psn.Add(3), mtu))
		s.inWant(ibta.DropInvalid, s.packet(ib.OpSendLast, psn.Add(4), 1)) // of the same
		psn = psn.Add(5)
		s.wantState(verbs.StateRTS)
		s.silence()
	}
	s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, psn, 3))
	if wc := s.wantWC(1, verbs.StatusSuccess); wc.ByteLen != 3 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	s.idle()
}

// UC: a receive of a shared queue, where others have taken the next ones, completes with the
// error (IBTA 9.9.3, class E).
func TestUnreliableTooLongShared(t *testing.T) {
	srq := &queue.RecvQueue{PD: 1, MaxWR: 8, MaxSGE: 1, Shared: true}
	s := start(t, verbs.UC, func(o *options) { o.config.Recv = srq })
	srq.PD = s.q.PD
	if _, err := srq.Post([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{s.mr.SGE(0, 8)}}}); err != nil {
		t.Fatal(err)
	}
	s.in(s.packet(ib.OpSendOnly, recvPSN, 9))
	s.wantWC(1, verbs.StatusLocalLengthError)
	s.wantState(verbs.StateError)
	s.wantEvent(verbs.EventQPLastWQEReached)
	s.idle()
}

// UC: so does one whose memory is gone.
func TestUnreliableReceiveError(t *testing.T) {
	s := start(t, verbs.UC)
	s.receives(8, 1)
	s.mr.Close()
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusLocalProtectionError)
	s.wantState(verbs.StateError)
	s.idle()
}

// UD: the queue key must match, the GRH's place comes first, and a controlled key in a
// work request stands for the queue pair's own (IBTA 9.8.3, 10.2.5).
func TestDatagrams(t *testing.T) {
	s := start(t, verbs.UD)
	s.inWant(ibta.DropNoReceive, s.packet(ib.OpSendOnly, 0, 1))
	s.receives(64, 1)
	p := s.packet(ib.OpSendOnlyImm, 7, 24)
	p.DETH.QKey++
	s.inWant(ibta.DropQKey, p)
	p.DETH.QKey--
	p.Imm = 5
	s.inWant(ibta.Taken, p)
	if wc := s.wantWC(1, verbs.StatusSuccess); wc.ByteLen != 64 || wc.SrcQPN != peerQPN ||
		wc.Flags != verbs.WithGRH|verbs.WithImm || wc.Imm != 5 {
		t.Errorf("%+v", wc)
	}
	if s.mr.Bytes()[39] != 0 || s.mr.Bytes()[40] != 7 {
		t.Error("the payload is not behind 40 bytes")
	}
	ah, err := s.host.pd.CreateAH(verbs.AHAttr{DGID: s.peer.gid()})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[verbs.QKey]verbs.QKey{5: 5, 0x80000005: qkey} {
		wr := s.send(2, 4096)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, 0x1234, key
		s.post(wr)
		p := s.out[0]
		s.out = nil
		if p.Opcode != ib.UDSendOnly || p.DestQP != 0x1234 || p.DETH.QKey != want || p.DETH.SrcQP != s.q.Num ||
			len(p.Payload) != 4096 {
			t.Errorf("%+v", p.DETH)
		}
		s.wantWC(2, verbs.StatusSuccess)
	}
	wr := s.send(3, 4097) // longer than a packet
	wr.AH = ah
	s.post(wr)
	s.wantWC(3, verbs.StatusLocalLengthError)
	s.wantState(verbs.StateSQE)
	s.idle()
}

// UD: a datagram that is longer than the receive, with the GRH in front of it, is dropped, and
// the next one has its receive (IBTA 9.9.3, class D). That of a shared queue is not lost either.
func TestDatagramTooLong(t *testing.T) {
	own := func(*options) {}
	srq := &queue.RecvQueue{MaxWR: 8, MaxSGE: 1, Shared: true, Limit: 1}
	shared := func(o *options) { o.config.Recv = srq }
	for name, queue := range map[string]func(*options){"own queue": own, "shared queue": shared} {
		t.Run(name, func(t *testing.T) {
			s := start(t, verbs.UD, queue)
			srq.PD = s.q.PD
			if _, err := s.q.Recv.Post([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{s.mr.SGE(0, 64)}}}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				s.inWant(ibta.DropTooLong, s.packet(ib.OpSendOnly, 0, 25))
				s.silence()
			}
			s.wantState(verbs.StateRTS)
			s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 0, 24))
			if wc := s.wantWC(1, verbs.StatusSuccess); wc.ByteLen != 64 {
				t.Errorf("%d bytes", wc.ByteLen)
			}
		})
	}
}

// SEND with invalidate ends the window that it names, of this queue pair (IBTA 9.4.1.1).
func TestSendInvalidate(t *testing.T) {
	s := start(t, verbs.RC)
	big := s.register(4096, everything|verbs.MWBind)
	mw, err := s.host.pd.AllocMW(verbs.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	key := mw.NextRKey()
	s.post(verbs.SendWR{ID: 1, Op: verbs.OpBindMW,
		Bind: &verbs.MWBindInfo{MW: mw, MR: big, RKey: key, Addr: big.Addr(), Length: 64, Access: verbs.RemoteWrite}})
	s.receives(8, 2)
	p := s.packet(ib.OpSendOnlyInv, 200, 1)
	p.IETH.RKey = key
	s.in(p)
	if wc := s.wantWC(2, verbs.StatusSuccess); wc.Flags != verbs.WithInv || wc.InvKey != key {
		t.Errorf("%+v", wc)
	}
	s.wantAETH(200, okAck)
	w := s.packet(ib.OpWriteOnly, 201, 8)
	w.RETH = ib.RETH{VA: big.Addr(), RKey: key, DMALen: 8}
	s.in(w)
	s.wantAETH(201, ib.NAK(ib.NAKRemoteAccessError))
	s.wantEvent(verbs.EventQPAccessError)
	s.idle()
}

// A SEND whose key cannot be invalidated has arrived none the less: its receive completes in
// error, and the peer hears nothing (IBTA 9.9.6.3, class J).
func TestSendInvalidateRefused(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 1, 2)
	s.inWant(ibta.DropInvalid, s.packet(ib.OpSendOnlyInv, 200, 1))
	s.wantWC(1, verbs.StatusRemoteInvalidRequestError)
	s.wantWC(2, verbs.StatusWRFlushError)
	s.wantState(verbs.StateError)
	s.inWant(ibta.DropState, s.packet(ib.OpSendOnlyInv, 200, 1))
	s.idle()
}

// Acknowledgements may be held back; NAKs and responses are not.
func TestHeldAcks(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 1)
	s.batch.Acks = false
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	s.silence()
	if !s.q.HasAck() || s.q.AckedMessages() != 1 {
		t.Error("no acknowledgement waits")
	}
	s.in(s.reth(s.packet(ib.OpReadRequest, 201, 0), 0, 8))
	s.want(ib.OpReadResponseOnly, 201) // says all
	if s.q.HasAck() {
		t.Error("it waits although the response says all")
	}
	s.in(s.packet(ib.OpSendOnly, 202, 1))
	s.wantAETH(202, ib.RNRNAK(12))
	s.idle()
}

// An acknowledgement leaves with a message that is not shorter than itself.
func TestAppendAck(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(8, 1, 2)
	s.batch.Acks = false
	s.in(s.packet(ib.OpSendOnly, 200, 1))
	s.wantWC(1, verbs.StatusSuccess)
	send := func(n, packets int) {
		t.Helper()
		if _, err := s.q.PostSend([]verbs.SendWR{s.send(7, n)}); err != nil {
			t.Fatal(err)
		}
		if !s.q.NextPackets(s.now, s.batch) {
			t.Fatal("nothing to send")
		}
		s.q.AppendAck(s.batch)
		if got := s.batch.Len(); got != packets {
			t.Fatalf("%d packets, want %d", got, packets)
		}
	}
	send(64, 1)
	s.batch.Acks = true
	send(64, 2)
	if p := s.batch.Packet(1); ib.Opcode(p.Head[0]).Operation() != ib.OpAck ||
		s.batch.PacketSize(1) >= s.batch.PacketSize(0) {
		t.Errorf("operation %#x behind the message", p.Head[0])
	}
	if s.q.HasAck() {
		t.Error("the acknowledgement waits")
	}
	s.batch.Acks = false
	s.in(s.packet(ib.OpSendOnly, 201, 1))
	s.wantWC(2, verbs.StatusSuccess)
	s.batch.Acks = true
	send(0, 1)
	s.drain()
	s.wantAETH(201, okAck)
	s.ack(102)
	s.wcs = nil
	s.idle()
}

// A FLUSH to persistence is answered when the device has carried it out, and nothing that
// follows it is carried out before (IBTA annex A19).
func TestFlushPersistent(t *testing.T) {
	var jobs []*ibta.Flush
	begin := func() (*script, *ib.Packet) {
		s := start(t, verbs.RC)
		s.host.Device.Persist = func(f *ibta.Flush) { jobs = append(jobs, f) }
		s.receives(8, 1)
		p := s.reth(s.packet(ib.OpFlush, 200, 0), 100, 8)
		p.FETH.Placement = ib.PlacementPersistent
		s.inWant(ibta.Taken, p)
		s.silence()
		if len(jobs) != 1 || &jobs[0].Memory()[0] != &s.mr.Bytes()[100] || len(jobs[0].Memory()) != 8 {
			t.Fatalf("%d to carry out", len(jobs))
		}
		return s, p
	}
	done := func(ok, more bool) {
		t.Helper()
		f := jobs[0]
		jobs = jobs[1:]
		if f.Done(ok) != more {
			t.Errorf("the queue pair has something to send: %v", !more)
		}
	}

	s, flush := begin()
	s.inWant(ibta.DropDuplicate, flush)
	s.inWant(ibta.Taken, s.packet(ib.OpSendOnly, 201, 1))
	s.silence()
	done(true, true)
	s.drain()
	if p := s.want(ib.OpReadResponseOnly, 200); p.AETH.MSN != 1 {
		t.Errorf("MSN %d", p.AETH.MSN)
	}
	s.wantWC(1, verbs.StatusSuccess)
	s.wantAETH(201, okAck)
	s.inWant(ibta.DropDuplicate, flush)
	s.want(ib.OpReadResponseOnly, 200)
	s.idle()

	// Nothing came meanwhile: nothing is missing.
	s, _ = begin()
	done(true, true)
	s.drain()
	s.want(ib.OpReadResponseOnly, 200)
	s.idle()

	// It cannot be done, or its region went.
	for code, spoil := range map[ib.NAKCode]func(*script){
		ib.NAKRemoteOperationalError: func(*script) {},
		ib.NAKRemoteAccessError:      func(s *script) { s.mr.Close() },
	} {
		s, _ = begin()
		spoil(s)
		done(false, true)
		s.drain()
		s.wantAETH(200, ib.NAK(code))
		s.wantState(verbs.StateError)
	}

	// The queue pair has forgotten it.
	for _, state := range []verbs.QPState{verbs.StateError, verbs.StateReset} {
		s, _ = begin()
		s.state(state)
		s.wcs = nil
		done(true, false)
		s.drain()
		s.idle()
	}

	// A device that cannot make memory persistent does not say that it has.
	s = start(t, verbs.RC)
	s.host.Device.Persist = nil
	p := s.reth(s.packet(ib.OpFlush, 200, 0), 100, 8)
	p.FETH.Placement = ib.PlacementPersistent | ib.PlacementGlobal
	s.in(p)
	s.wantAETH(200, ib.NAK(ib.NAKRemoteOperationalError))
	s.wantEvent(verbs.EventQPFatal)
	s.idle()
}

// No SEND is longer than messages may be, even if its receive is (IBTA 9.7.4.1.6).
func TestSendLongerThanMessages(t *testing.T) {
	s := start(t, verbs.RC)
	s.host.Device.MaxMsgSize = 2 * mtu
	s.receives(8*mtu, 1)
	s.in(s.packet(ib.OpSendFirst, 200, mtu))
	s.in(s.packet(ib.OpSendMiddle, 201, mtu))
	s.in(s.packet(ib.OpSendLast, 202, 1))
	s.wantWC(1, verbs.StatusLocalLengthError)
	s.wantAETH(202, ib.NAK(ib.NAKInvalidRequest))
	s.wantEvent(verbs.EventQPRequestError)
	s.idle()
}
