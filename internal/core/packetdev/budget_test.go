// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// player is a peer of a device that the test plays: it has no device, and packets to it vanish.
type player struct {
	side *side
	gid  verbs.GID
	qp   *verbs.QP // the device's, which is connected to it
	psn  ib.PSN
}

func (s *side) newQP() *verbs.QP {
	s.T.Helper()
	qp, err := s.PD.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.CQ, RecvCQ: s.CQ})
	s.OK(err)
	return qp
}

// newPlayer connects a queue pair of the device to a peer without one.
func (s *side) newPlayer(i byte, opt *verbs.ConnectOptions) *player {
	s.T.Helper()
	p := &player{side: s, gid: ib.GIDFromAddr(netip.AddrFrom4([4]byte{10, 9, 9, i})), psn: 1}
	p.qp = s.newQP()
	ep, err := p.qp.Endpoint(0)
	s.OK(err)
	s.OK(p.qp.Connect(ep, verbs.Endpoint{QPN: 0x777, PSN: p.psn, GID: p.gid, MTU: verbs.MTU1024}, opt))
	return p
}

// request has a request without payload, which takes so many PSNs, arrive at the device, and calls
// also at that moment: the device takes nothing from its port meanwhile.
func (p *player) request(op ib.Operation, remote verbs.Remote, length uint32, packets int, also func()) {
	pkt := ib.Packet{BTH: ib.BTH{Opcode: ib.TransportRC.Join(op), PKey: ib.DefaultPKey, DestQP: p.qp.Num(), PSN: p.psn,
		AckReq: true},
		RETH: ib.RETH{VA: remote.Addr, RKey: remote.Key, DMALen: length}}
	p.psn = p.psn.Add(packets)
	port := p.side.Port
	port.In.Change(func() {
		port.Arrived = append(port.Arrived, memhub.Frame{Bytes: pkt.AppendHeader(nil), From: p.gid})
		also()
	})
}

// A flood is a peer's READs of 128 MiB each, of which as many as may be are outstanding.
type flood struct {
	*player
	mr    *verbs.MR
	asked int64        // READs
	sent  atomic.Int64 // packets of responses
}

const (
	floodDepth   = 16
	floodBytes   = 128 << 20
	floodPackets = floodBytes / 1024
)

// newFlood asks the device for 2 GiB.
func (s *side) newFlood() *flood {
	s.T.Helper()
	f := &flood{player: s.newPlayer(200, nil)}
	var err error
	f.mr, err = s.PD.AllocMR(floodBytes, verbs.RemoteRead)
	s.OK(err)
	f.top()
	return f
}

// top asks for as much more as has come.
func (f *flood) top() {
	for ; f.asked < f.sent.Load()/floodPackets+floodDepth; f.asked++ {
		f.request(ib.OpReadRequest, f.mr.Remote(), floodBytes, floodPackets, func() {})
	}
}

// count notes the packets that the device sends.
func (f *flood) count(b *ibta.Batch) {
	if b.To.Path == memhub.Path(f.gid) {
		f.sent.Add(int64(b.Len()))
	}
}

// polling has a goroutine poll the side's queue to the end of the test.
func (s *side) polling() {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			s.CQ.Poll(make([]verbs.WC, 1))
		}
	}()
	s.T.Cleanup(func() { stop.Store(true); <-done })
}

// TestReadsOfStranger holds that a peer which asks a device for gigabytes does not keep others waiting: between a
// request of theirs and its acknowledgement the device sends the rest of the pass under way, and little more. Time is
// counted in bytes that the device has sent.
func TestReadsOfStranger(t *testing.T) {
	for name, polls := range map[string]bool{"nobody polls": false, "a program polls": true} {
		t.Run(name, func(t *testing.T) {
			var h memhub.Hub
			s := newSide(t, &h)
			victim := s.newPlayer(100, nil)
			flood := s.newFlood()
			var sent atomic.Int64
			acked := make(chan int64, 1)
			s.Port.AtSend.Store(new(func(b *ibta.Batch) {
				n := sent.Add(int64(b.Bytes()))
				flood.count(b)
				if b.To.Path == memhub.Path(victim.gid) {
					acked <- n
				}
			}))
			if polls {
				s.polling()
			}
			const trips = 2000
			var waited []int64
			for range trips {
				flood.top()
				var before int64
				victim.request(ib.OpWriteOnly, verbs.Remote{}, 0, 1, func() { before = sent.Load() })
				trip := <-acked - before
				if trip > floodBytes {
					t.Fatalf("%d bytes sent during one round trip", trip)
				}
				waited = append(waited, trip)
			}
			slices.Sort(waited)
			p999 := waited[trips*999/1000]
			t.Logf("bytes sent during a round trip of the victim: median %d, 99.9th percentile %d", waited[trips/2],
				p999)
			if limit := int64(2*budgetBytes + 2*s.Port.Limits().MaxBytes); p999 > limit {
				t.Errorf("during 99.9 %% of the victim's round trips others are sent up to %d bytes, want %d at most",
					p999, limit)
			}
		})
	}
}

// TestTimersDuringReads holds that timers run while a peer asks for gigabytes: requests that nobody acknowledges fail.
func TestTimersDuringReads(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	silent := s.newPlayer(100, &verbs.ConnectOptions{Timeout: 1, RetryCount: 1})
	flood := s.newFlood()
	s.Port.AtSend.Store(new(flood.count))
	s.Eventually(func() bool { return flood.sent.Load() > 0 }, "the stranger is answered")
	s.OK(silent.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.MR.SGE(0, 8)}}))
	var wc [1]verbs.WC
	s.Eventually(func() bool { flood.top(); return s.CQ.Poll(wc[:]) > 0 }, "the WRITE fails")
	if wc[0].Status != verbs.StatusRetryExceeded {
		t.Errorf("%v, want %v", wc[0].Status, verbs.StatusRetryExceeded)
	}
}

// TestWindowsDuringReads holds that queue pairs that wait for a window get their turn while another
// one has always something to send.
func TestWindowsDuringReads(t *testing.T) {
	var h memhub.Hub
	a, b := newSide(t, &h), newSide(t, &h)
	flood := a.newFlood()
	a.Port.AtSend.Store(new(flood.count))
	a.Eventually(func() bool { return flood.sent.Load() > 0 }, "the stranger is answered")
	const n = 8 // queue pairs, each with as much as the window that they share
	for range n {
		qa, qb := a.newQP(), b.newQP()
		ea, err := qa.Endpoint(0)
		a.OK(err)
		eb, err := qb.Endpoint(0)
		b.OK(err)
		a.OK(qa.Connect(ea, eb, &pair.Patient))
		b.OK(qb.Connect(eb, ea, &pair.Patient))
		a.OK(qa.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.MR.SGE(0, 1<<20)},
			Remote: b.MR.Remote()}))
	}
	for range n {
		var wc [1]verbs.WC
		a.Eventually(func() bool { flood.top(); return a.CQ.Poll(wc[:]) > 0 }, "all WRITEs complete")
		if wc[0].Status != verbs.StatusSuccess {
			t.Fatal(wc[0].Status)
		}
	}
}
