// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A requester that gets a report of a lost packet sends that packet again, and none behind it.
func TestRequestLost(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpWrite, 1, 5*mtu), s.send(2, mtu))
	s.out = nil
	s.q.RequestLost(s.now, sendPSN+1)
	s.q.RequestLost(s.now, sendPSN+5) // the SEND
	s.drain()
	if p := s.want(ib.OpWriteMiddle, sendPSN+1); !p.AckReq || len(p.Payload) != mtu {
		t.Errorf("%d bytes, asks for an acknowledgement: %v", len(p.Payload), p.AckReq)
	}
	s.want(ib.OpSendOnly, sendPSN+5)
	s.silence()
	if n := s.q.Counts.Retransmitted; n != 2 {
		t.Errorf("%d packets were sent again, want 2", n)
	}
	s.ack(sendPSN + 5)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantWC(2, verbs.StatusSuccess)
	s.pass(time.Second)
	s.idle()
}

// Reports of packets that are acknowledged, that were never sent, or that are about to be sent again anyway have no
// effect.
func TestRequestLostOfNothing(t *testing.T) {
	s := start(t, verbs.RC)
	s.q.RequestLost(s.now, sendPSN)
	s.post(s.wr(verbs.OpWrite, 1, 4*mtu))
	s.out = nil
	s.ack(sendPSN + 1)
	for _, psn := range []ib.PSN{sendPSN, sendPSN + 1, sendPSN + 4, sendPSN + 1<<23} {
		s.q.RequestLost(s.now, psn)
		s.drain()
		s.silence()
	}
	s.q.RequestLost(s.now, sendPSN+3)
	s.nak(sendPSN+2, ib.NAK(ib.NAKPSNSequenceError)) // goes back: the last is sent once
	s.want(ib.OpWriteMiddle, sendPSN+2)
	s.want(ib.OpWriteLast, sendPSN+3)
	s.silence()
	s.ack(sendPSN + 3)
	s.wantWC(1, verbs.StatusSuccess)
	s.idle()
}

// A responder that gets a report of a lost response sends it again, as long as its memory may be read.
func TestResponseLost(t *testing.T) {
	s := start(t, verbs.RC)
	s.q.ResponseLost(recvPSN) // there was none
	s.drain()
	s.silence()
	for i := range s.mr.Bytes() {
		s.mr.Bytes()[i] = byte(i / mtu)
	}
	s.in(s.reth(s.packet(ib.OpReadRequest, recvPSN, 0), 0, 4*mtu+3))
	s.out = nil
	for _, c := range []struct {
		psn  ib.PSN
		size int
	}{{recvPSN + 2, mtu}, {recvPSN + 4, 3}} {
		s.q.ResponseLost(c.psn)
		s.drain()
		if p := s.want(ib.OpReadResponseOnly, c.psn); len(p.Payload) != c.size || p.Payload[0] != byte(c.psn-recvPSN) {
			t.Errorf("response %d: %d bytes, want %d", c.psn-recvPSN, len(p.Payload), c.size)
		}
	}
	if err := s.mr.Close(); err != nil {
		t.Fatal(err)
	}
	s.q.ResponseLost(recvPSN + 1)
	s.drain()
	s.idle()
}

// A READ goes on with responses that arrive behind a lost one, and with that as a message of its own.
func TestReadWithReports(t *testing.T) {
	s := start(t, verbs.RC)
	s.host.ReportsLosses = true
	s.post(s.wr(verbs.OpRead, 1, 3*mtu))
	s.want(ib.OpReadRequest, sendPSN)
	s.q.RequestLost(s.now, sendPSN)
	s.drain()
	s.want(ib.OpReadRequest, sendPSN)
	s.in(s.packet(ib.OpReadResponseFirst, sendPSN, mtu))
	s.in(s.packet(ib.OpReadResponseLast, sendPSN+2, mtu))
	s.silence()
	s.in(s.packet(ib.OpReadResponseOnly, sendPSN+1, mtu))
	s.wantWC(1, verbs.StatusSuccess)
	s.idle()
}

// If the network reports losses, a missing request counts as late. If none is reported, a NAK is sent for it in the
// end.
func TestGapWithReports(t *testing.T) {
	s := start(t, verbs.RC)
	s.host.ReportsLosses = true
	s.receives(8, 200, 201, 202, 203)
	s.in(s.message(201))
	s.pass(time.Millisecond)
	s.silence()
	s.in(s.message(200))
	s.wantWC(200, verbs.StatusSuccess)
	s.wantWC(201, verbs.StatusSuccess)
	s.in(s.message(203))
	s.pass(4*time.Millisecond - 1)
	s.silence()
	s.pass(1)
	s.wantAETH(202, ib.NAK(ib.NAKPSNSequenceError))
}

// More reports than a queue pair keeps have it go back.
func TestManyReports(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.wr(verbs.OpWrite, 1, 3*mtu))
	s.out = nil
	for range 1025 {
		s.q.RequestLost(s.now, sendPSN+1)
		s.q.ResponseLost(recvPSN)
	}
	s.drain()
	for i := range 3 {
		if p := s.out[i]; p.PSN != sendPSN.Add(i) {
			t.Errorf("packet %d has PSN %d", i, p.PSN)
		}
	}
	s.out = s.out[3:]
	s.silence()
}
