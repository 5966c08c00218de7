// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// player is a peer of a device that the test plays: it has no device, and what it is sent
// vanishes.
type player struct {
	side *side
	gid  verbs.GID
	qp   *verbs.QP // the device's, which is connected to it
	psn  ib.PSN
}

func (s *side) newQP() *verbs.QP {
	s.t.Helper()
	qp, err := s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	s.ok(err)
	return qp
}

// newPlayer connects a queue pair of the device to a peer without one.
func (s *side) newPlayer(i byte, opt *verbs.ConnectOptions) *player {
	s.t.Helper()
	p := &player{side: s, gid: ib.GIDFromAddr(netip.AddrFrom4([4]byte{10, 9, 9, i})), psn: 1}
	p.qp = s.newQP()
	ep, err := p.qp.Endpoint(0)
	s.ok(err)
	s.ok(p.qp.Connect(ep, verbs.Endpoint{QPN: 0x777, PSN: p.psn, GID: p.gid, MTU: verbs.MTU1024}, opt))
	return p
}

// request has a request without payload, which takes so many PSNs, arrive at the device, and calls
// also at that moment: the device takes nothing from its port meanwhile.
func (p *player) request(op ib.Operation, remote verbs.Remote, length uint32, packets int, also func()) {
	pkt := ib.Packet{BTH: ib.BTH{Opcode: ib.TransportRC.Join(op), PKey: ib.DefaultPKey, DestQP: p.qp.Num(), PSN: p.psn, AckReq: true},
		RETH: ib.RETH{VA: remote.Addr, RKey: remote.Key, DMALen: length}}
	p.psn = p.psn.Add(packets)
	port := p.side.port
	port.in.change(func() {
		port.arrived = append(port.arrived, arrived{pkt.AppendHeader(nil), p.gid})
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
	s.t.Helper()
	f := &flood{player: s.newPlayer(200, nil)}
	var err error
	f.mr, err = s.pd.AllocMR(floodBytes, verbs.RemoteRead)
	s.ok(err)
	f.top()
	return f
}

// top asks for as much more as has come.
func (f *flood) top() {
	for ; f.asked < f.sent.Load()/floodPackets+floodDepth; f.asked++ {
		f.request(ib.OpReadRequest, f.mr.Remote(), floodBytes, floodPackets, func() {})
	}
}

// count notes what the device sends.
func (f *flood) count(b *ibta.Batch) {
	if b.To.Path == memPath(f.gid) {
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
			s.cq.Poll(make([]verbs.WC, 1))
		}
	}()
	s.t.Cleanup(func() { stop.Store(true); <-done })
}

// TestReadsOfStranger holds that a peer which asks a device for gigabytes does not keep others waiting:
// what the device sends between a request of theirs and its acknowledgement is what the pass
// under way has left, and little more. Time is counted in bytes that the device has sent.
func TestReadsOfStranger(t *testing.T) {
	for name, polls := range map[string]bool{"nobody polls": false, "a program polls": true} {
		t.Run(name, func(t *testing.T) {
			var h hub
			s := h.newSide(t)
			victim := s.newPlayer(100, nil)
			flood := s.newFlood()
			var sent atomic.Int64
			acked := make(chan int64, 1)
			s.port.atSend.Store(new(func(b *ibta.Batch) {
				n := sent.Add(int64(b.Bytes()))
				flood.count(b)
				if b.To.Path == memPath(victim.gid) {
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
			t.Logf("bytes sent during a round trip of the victim: median %d, 99.9th percentile %d", waited[trips/2], p999)
			if limit := int64(2*budgetBytes + 2*s.port.Limits().MaxBytes); p999 > limit {
				t.Errorf("during 99.9 %% of the victim's round trips others are sent up to %d bytes, want %d at most", p999, limit)
			}
		})
	}
}

// TestTimersDuringReads holds that timers run while a peer asks for gigabytes: what nobody
// acknowledges fails.
func TestTimersDuringReads(t *testing.T) {
	var h hub
	s := h.newSide(t)
	silent := s.newPlayer(100, &verbs.ConnectOptions{Timeout: 1, RetryCount: 1})
	flood := s.newFlood()
	s.port.atSend.Store(new(flood.count))
	s.eventually(func() bool { return flood.sent.Load() > 0 }, "the stranger is answered")
	s.ok(silent.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, 8)}}))
	var wc [1]verbs.WC
	s.eventually(func() bool { flood.top(); return s.cq.Poll(wc[:]) > 0 }, "the WRITE fails")
	if wc[0].Status != verbs.StatusRetryExceeded {
		t.Errorf("%v, want %v", wc[0].Status, verbs.StatusRetryExceeded)
	}
}

// TestWindowsDuringReads holds that queue pairs that wait for a window get their turn while another
// one has always something to send.
func TestWindowsDuringReads(t *testing.T) {
	var h hub
	a, b := h.newSide(t), h.newSide(t)
	flood := a.newFlood()
	a.port.atSend.Store(new(flood.count))
	a.eventually(func() bool { return flood.sent.Load() > 0 }, "the stranger is answered")
	const n = 8 // queue pairs, each with as much as the window that they share
	for range n {
		qa, qb := a.newQP(), b.newQP()
		ea, err := qa.Endpoint(0)
		a.ok(err)
		eb, err := qb.Endpoint(0)
		b.ok(err)
		a.ok(qa.Connect(ea, eb, nil))
		b.ok(qb.Connect(eb, ea, nil))
		a.ok(qa.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 1<<20)}, Remote: b.mr.Remote()}))
	}
	for range n {
		var wc [1]verbs.WC
		a.eventually(func() bool { flood.top(); return a.cq.Poll(wc[:]) > 0 }, "all WRITEs complete")
		if wc[0].Status != verbs.StatusSuccess {
			t.Fatal(wc[0].Status)
		}
	}
}

// TestStreamBudget holds that a device with streams ends a pass before it has answered all READs of
// its peers, and goes on with the others in the next one.
func TestStreamBudget(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	const streams, reads, n = 6, 8, 1 << 20
	var qps []*verbs.QP
	for range streams {
		qp, _ := a.join(b, nil)
		qps = append(qps, qp)
	}
	b.rest()
	b.soft.Lane.Mu.Lock()
	defer b.soft.Lane.Mu.Unlock()
	for _, qp := range qps {
		a.post(qp, b, n, slices.Repeat([]verbs.SendOp{verbs.OpRead}, reads)...)
	}
	most := uint64(0)
	done := make(map[verbs.QPN]int)
	a.eventually(func() bool {
		before := b.soft.carrier.(*byteCarrier).engine.Counters.SentBytes
		b.soft.Lane.move(false)
		most = max(most, b.soft.carrier.(*byteCarrier).engine.Counters.SentBytes-before)
		var wcs [64]verbs.WC
		for _, wc := range wcs[:a.cq.Poll(wcs[:])] {
			if done[wc.QPN]++; wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
		}
		for _, qp := range qps {
			if done[qp.Num()] < reads {
				return false
			}
		}
		return true
	}, "all READs are answered")
	if limit := uint64(streamBudgetBytes + 1<<20); most > limit { // the last write may go beyond
		t.Errorf("%d bytes were sent in one pass, want %d at most", most, limit)
	}
}

// TestPostsInParts posts a list that is longer than a pass's, and one that does not fit: what fits
// is posted.
func TestPostsInParts(t *testing.T) {
	var h hub
	s := h.newSide(t)
	const room = 2*budgetPosts + 3
	qp, err := s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxRecvWR: room, MaxSendWR: room}})
	s.ok(err)
	ep, err := qp.Endpoint(0)
	s.ok(err)
	s.ok(qp.Connect(ep, verbs.Endpoint{QPN: 0x777, GID: s.ep.GID, MTU: verbs.MTU1024}, nil))
	lim := qp.Query().Cap
	list := make([]verbs.SendWR, lim.MaxSendWR+budgetPosts)
	for i := range list {
		list[i] = verbs.SendWR{Op: verbs.OpSend}
	}
	if n, err := qp.PostSendList(list); n != lim.MaxSendWR || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("posted %d sends of %d: %v", n, lim.MaxSendWR, err)
	}
	if n, err := qp.PostRecvList(make([]verbs.RecvWR, lim.MaxRecvWR)); n != lim.MaxRecvWR || err != nil {
		t.Errorf("posted %d receives of %d: %v", n, lim.MaxRecvWR, err)
	}
	if n, err := qp.PostRecvList(make([]verbs.RecvWR, 1)); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("posted %d receives to a full queue: %v", n, err)
	}
}
