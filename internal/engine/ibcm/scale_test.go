// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"runtime"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A pair is two engines whose programs say yes to everything, and a network
// that delivers at once.
type pair struct {
	tb     testing.TB
	a, b   *Engine
	addrs  [2]verbs.AHAttr
	now    clock.Time
	qpn    ib.QPN
	counts map[EventKind]int
}

func newPair(tb testing.TB) *pair {
	p := &pair{tb: tb, a: New(Config{Key: [16]byte{1}}), b: New(Config{Key: [16]byte{2}}),
		addrs: [2]verbs.AHAttr{addr("192.0.2.1"), addr("192.0.2.2")},
		now:   1e9, counts: map[EventKind]int{}}
	if err := p.b.Listen(ListenParams{Service: testService}); err != nil {
		tb.Fatal(err)
	}
	return p
}

func (p *pair) connect() mad.CommID {
	p.qpn++
	id, err := p.a.Connect(p.now, &ConnectParams{To: p.addrs[1], Service: testService, QPN: p.qpn,
		PathMTU: verbs.MTU4096})
	if err != nil {
		p.tb.Fatal(err)
	}
	p.settle()
	return id
}

// settle goes on until neither side has more to say.
func (p *pair) settle() {
	var o Datagram
	var ev Event
	for busy := true; busy; {
		busy = false
		for i, e := range []*Engine{p.a, p.b} {
			for e.NextEvent(&ev) {
				p.counts[ev.Kind]++
				var err error
				switch ev.Kind {
				case EventRequest:
					err = e.Accept(p.now, ev.ID, &AcceptParams{QPN: ev.REQ.LocalQPN})
				case EventReply:
					err = e.Ready(p.now, ev.ID, nil)
				}
				if err != nil {
					p.tb.Fatal(err)
				}
			}
			for e.NextMAD(&o) {
				busy = true
				[]*Engine{p.b, p.a}[i].HandleMAD(p.now, p.addrs[i], o.MAD[:])
			}
		}
	}
}

// 10,000 connections at once, idle, then disconnected.
func TestManyConnections(t *testing.T) {
	const n = 10_000
	p := newPair(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ids := make([]mad.CommID, n)
	for i := range ids {
		ids[i] = p.connect()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / (2 * n)
	t.Logf("%d bytes for each side of a connection", each)
	if each > 4096 {
		t.Errorf("%d bytes for each side of a connection", each)
	}
	if p.counts[EventEstablished] != n || p.a.Connections() != n || p.b.Connections() != n ||
		p.a.Deadline()+p.b.Deadline() != 0 {
		t.Fatalf("%v, %d and %d connections", p.counts, p.a.Connections(), p.b.Connections())
	}
	for _, id := range ids {
		if err := p.a.Disconnect(p.now, id, nil); err != nil {
			t.Fatal(err)
		}
		p.now++
	}
	p.settle()
	if err := consistent(p.a); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*Engine{p.a, p.b} {
		for d := e.Deadline(); d != 0; d = e.Deadline() {
			p.now = max(p.now, d)
			e.HandleTimeout(p.now)
		}
	}
	p.settle()
	if p.counts[EventDisconnected] != 2*n || p.counts[EventTimeWaitExit] != 2*n ||
		p.a.Connections()+p.b.Connections() != 0 {
		t.Fatalf("%v, %d and %d connections", p.counts, p.a.Connections(), p.b.Connections())
	}
}

// A flood of requests of peers that never come back costs a bounded amount of
// memory, whether there is a listener or not.
func TestFlood(t *testing.T) {
	e := New(Config{MaxConnections: 1000})
	if err := e.Listen(ListenParams{Service: testService, Backlog: 100}); err != nil {
		t.Fatal(err)
	}
	now := clock.Time(1)
	var o Datagram
	var ev Event
	most := 0
	for i := range 50_000 {
		req := request()
		req.LocalCommID, req.LocalQPN = mad.CommID(i+1), ib.QPN(i+1)
		if i%3 == 0 {
			req.ServiceID++
		}
		e.HandleMAD(now, peerAddr, encode(mad.AttrREQ, uint64(i), req)[:])
		for e.NextEvent(&ev) {
			if ev.Kind == EventRequest && i%2 == 0 { // accepts, or refuses
				e.Accept(now, ev.ID, &AcceptParams{})
			} else if ev.Kind == EventRequest && i%5 == 0 {
				e.Reject(now, ev.ID, &RejectParams{})
			}
		}
		for e.NextMAD(&o) {
		}
		now += clock.Time(1e6)
		e.HandleTimeout(now)
		most = max(most, len(e.byID))
	}
	if most > 1000+maxRefused {
		t.Errorf("%d connections and refusals", most)
	}
	if err := consistent(e); err != nil {
		t.Error(err)
	}
}

// BenchmarkConnect sets up a connection and ends it, both sides.
func BenchmarkConnect(b *testing.B) {
	p := newPair(b)
	b.ReportAllocs()
	for b.Loop() {
		id := p.connect()
		p.a.Disconnect(p.now, id, nil)
		p.settle()
		p.now += clock.Time(20e9)
		p.a.HandleTimeout(p.now)
		p.b.HandleTimeout(p.now)
		p.settle()
		p.qpn &= 0xffff
	}
}
