// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// slow posts work requests to a peer that is silent. It has got the first packet since.
func slow(t *testing.T, wrs func(*script) []verbs.SendWR) *script {
	t.Helper()
	s := start(t, verbs.RC)
	s.post(wrs(s)...)
	s.pass(8*time.Millisecond - 1)
	s.out = nil
	s.pass(1)
	s.wantFrom(sendPSN, 1)
	return s
}

// manyWrites are 15 WRITEs of 64 packets.
func manyWrites(s *script) (wrs []verbs.SendWR) {
	for id := range uint64(15) {
		wrs = append(wrs, s.wr(verbs.OpWrite, id, 64*mtu))
	}
	return wrs
}

// wantFrom takes the packets that the engine sent, which must be so many from psn on. The last asks
// for an acknowledgement.
func (s *script) wantFrom(psn ib.PSN, n int) {
	s.Helper()
	if len(s.out) != n {
		s.Fatalf("%d packets, want %d from PSN %d on", len(s.out), n, psn)
	}
	for i, p := range s.out {
		if p.PSN != psn.Add(i) {
			s.Fatalf("%v with PSN %d, want PSN %d", p.Opcode, p.PSN, psn.Add(i))
		}
	}
	if !s.out[n-1].AckReq {
		s.Fatalf("PSN %d asks for no acknowledgement", s.out[n-1].PSN)
	}
	s.out = nil
}

// The packets to a slow peer double with each round trip until it has kept up with a whole window.
func TestSlowPeer(t *testing.T) {
	s := slow(t, manyWrites)
	psn := sendPSN
	for n := 1; n <= 64; n *= 2 {
		psn = psn.Add(n)
		s.ack(psn.Add(-1))
		s.wantFrom(psn, 2*n)
	}
	n := 128
	for psn.Sub(sendPSN) < 64<<10/192 {
		psn = psn.Add(n)
		s.ack(psn.Add(-1))
		n = len(s.out)
		s.out = nil
	}
	if n < 128 {
		t.Errorf("%d packets sent, want a window of them", n)
	}
}

// A slow peer that is silent again gets one packet once more. If it has taken all data that it was sent before, that
// counts.
func TestSlowPeerSilent(t *testing.T) {
	s := slow(t, manyWrites)
	s.ack(100)
	s.wantFrom(101, 2)
	s.ack(102)
	s.wantFrom(103, 4)
	s.pass(16 * time.Millisecond)
	s.wantFrom(103, 1)
	s.ack(104)
	s.wantFrom(105, 3)
	s.nak(106, ib.NAK(ib.NAKPSNSequenceError))
	s.wantFrom(108, 2)           // the NAK may be for an earlier copy of packet 106
	s.pass(9 * time.Millisecond) // until a round trip has passed
	s.wantFrom(106, 4)
	s.ack(109)
	s.wantFrom(110, 8)
}

// answer acknowledges a packet as a peer does.
func (s *script) answer(p *ib.Packet) {
	s.Helper()
	switch op := p.Opcode.Operation(); op {
	case ib.OpReadRequest:
		for at, left := p.PSN, int(p.RETH.DMALen); left > 0; at, left = at.Next(), left-mtu {
			s.inWant(ibta.Taken, s.packet(ib.OpReadResponseMiddle, at, min(left, mtu)))
		}
	case ib.OpAtomicWrite, ib.OpFlush:
		s.inWant(ibta.Taken, s.packet(ib.OpReadResponseOnly, p.PSN, 0))
	case ib.OpFetchAdd, ib.OpCompareSwap:
		s.inWant(ibta.Taken, s.packet(ib.OpAtomicAck, p.PSN, 0))
	default:
		if p.AckReq {
			s.ack(p.PSN)
		}
	}
}

// Each kind of work request that waits for a slow peer goes on with the peer's answers, without a timeout.
func TestSlowPeerAnswers(t *testing.T) {
	all := func(s *script) []verbs.SendWR {
		mr := s.register(64, everything|verbs.MWBind)
		mw, err := s.host.pd.AllocMW(verbs.MWType2)
		if err != nil {
			t.Fatal(err)
		}
		key := mw.NextRKey()
		bind := verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled,
			Bind: &verbs.MWBindInfo{MW: mw, MR: mr, RKey: key, Addr: mr.Addr(), Length: 8, Access: verbs.RemoteWrite}}
		inv := verbs.SendWR{Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvKey: key}
		fenced := s.send(0, 1)
		fenced.Flags |= verbs.Fence
		return []verbs.SendWR{s.send(0, 1), s.wr(verbs.OpRead, 0, 20*mtu), s.wr(verbs.OpFetchAdd, 0, 8), bind,
			s.wr(verbs.OpWrite, 0, 30*mtu),
			s.wr(verbs.OpRead, 0, 1), fenced, s.wr(verbs.OpCompareSwap, 0, 8), s.wr(verbs.OpAtomicWrite, 0, 8),
			s.wr(verbs.OpFlush, 0, 8),
			s.send(0, 7*mtu), s.wr(verbs.OpRead, 0, 64*mtu), inv, s.send(0, 0)}
	}
	s := slow(t, all)
	s.ack(100)
	for len(s.wcs) < 14 {
		if len(s.out) == 0 {
			t.Fatalf("nothing is sent after %d completions", len(s.wcs))
		}
		p := s.out[0]
		s.out = s.out[1:]
		s.answer(&p)
	}
	s.wcs = nil
	s.idle()
}
