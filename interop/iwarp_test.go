// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
	wire "github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// iwPort counts the ports of streams: TCP keeps the ports of ended connections for a while.
var iwPort atomic.Uint32

// iwPair is Ramjet's iWARP device and the guest's siw, of which one asks for connections.
type iwPair struct {
	m    *manager
	g    *guest
	asks bool // Ramjet does

	srqM, srqG recvQueue          // Ramjet's and the guest's, for queue pairs without receives of their own
	channel    *verbs.CompChannel // of Ramjet's completion queues
	deep       int                // READs in flight, both ways
}

// openIW opens both sides until the test ends.
func openIW(t testing.TB, f family, opt *iwarp.Options, asks bool) *iwPair {
	t.Helper()
	dev, err := iwarp.Open(f.host, opt)
	must(t, dev, err)
	p := &iwPair{m: f.manage(t, dev), g: dialGuest(t, f.ipv6), asks: asks, deep: 16}
	p.g.call("use", args{"device": "siw0"}, nil)
	return p
}

// eachIW runs a test with either side asking for the connection.
func eachIW(t *testing.T, test func(t *testing.T, p *iwPair)) {
	for _, asks := range []bool{true, false} {
		t.Run(asker(asks), func(t *testing.T) { test(t, openIW(t, iwFamilies[0], nil, asks)) })
	}
}

func asker(ramjet bool) string {
	if ramjet {
		return iwFamilies[0].toGuest()
	}
	return iwFamilies[0].fromGuest()
}

// iwStream is a connection with a queue pair on each side.
type iwStream struct {
	*iwPair
	id *cm.ID
	a  *deviceQueue // Ramjet's
	b  *guestQueue  // siw's
}

// stream makes a connection.
func (p *iwPair) stream() *iwStream {
	p.g.t.Helper()
	s, err := p.tryStream(false)
	if err != nil {
		p.g.t.Fatal(err)
	}
	return s
}

// tryStream makes a connection, or returns the error of Ramjet's side, or else of siw's. With
// refused, siw is to refuse Ramjet's request, so that its program gets no event.
func (p *iwPair) tryStream(refused bool) (*iwStream, error) {
	m, g := p.m, p.g
	g.t.Helper()
	port := 18700 + uint16(iwPort.Add(1))
	b := &guestQueue{g: g, typ: verbs.RC}
	a := args{"access": []string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ"}}
	if p.srqG != nil {
		a["srq"] = p.srqG.(*guestSRQ).Handle
	}
	g.call("iw_create", a, b)
	param := &cm.ConnParam{ResponderResources: uint8(p.deep), InitiatorDepth: uint8(p.deep)}
	depths := args{"qp": b.Handle, "ird": p.deep, "ord": p.deep}
	if p.asks {
		g.call("iw_listen", args{"address": m.guest, "port": port}, nil)
		id := m.resolve(cm.TCP, port)
		s := p.made(id, b)
		m.ok(id.Connect(param))
		if !refused {
			g.call("iw_accept", depths, nil)
		}
		e, err := m.ch.Get(m.ctx)
		must(m.t, e, err)
		return s, e.Err
	}
	l := m.listen(cm.TCP, port)
	m.t.Cleanup(func() { l.Close() })
	depths["address"], depths["port"] = m.host, port
	g.call("iw_connect", depths, nil)
	id := m.event(cm.ConnectRequest).ID
	s := p.made(id, b)
	m.ok(id.Accept(param))
	var answer struct{ Event string }
	g.call("iw_event", nil, &answer)
	e, err := m.ch.Get(m.ctx)
	must(m.t, e, err)
	if answer.Event != "ESTABLISHED" {
		return s, &guestError{Text: answer.Event}
	}
	return s, e.Err
}

// made gives an id a queue pair.
func (p *iwPair) made(id *cm.ID, b *guestQueue) *iwStream {
	d := p.m.device
	d.t.Helper()
	cq, err := d.dev.CreateCQ(512, &verbs.CQOptions{Channel: p.channel})
	must(d.t, cq, err)
	spec := verbs.QPInit{SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4}}
	if p.srqM != nil {
		spec.SRQ = p.srqM.(*deviceSRQ).srq
	}
	qp, err := id.CreateQP(d.pd, spec)
	must(d.t, qp, err)
	return &iwStream{p, id, &deviceQueue{d: d, cq: cq, qp: qp}, b}
}

// iwEnd is one end of a stream.
type iwEnd struct {
	side
	queue
	name string
}

// directions are both ways over a stream: the requester, and the responder.
func (s *iwStream) directions() [2][2]iwEnd {
	ramjet, siw := iwEnd{s.m.device, s.a, "ramjet"}, iwEnd{s.g, s.b, "siw"}
	return [2][2]iwEnd{{ramjet, siw}, {siw, ramjet}}
}

const iwLargest = 1 << 20

// exchange does each operation both ways and compares the received data, for messages of n bytes:
// SEND out of and into two pieces, WRITE, which a SEND proves to have arrived, and READ.
func (s *iwStream) exchange(t testing.TB, n int) {
	t.Helper()
	for i, d := range s.directions() {
		from, to := d[0], d[1]
		seed := byte(n + 40*i)
		ra := from.region(3*n+guard, verbs.LocalWrite)
		rb := to.region(3*n+guard, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		ra.fill(seed, 0, n)
		k := n / 3
		to.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{rb.sge(0, n-k), rb.sge(n-k, k)}})
		to.recv(verbs.RecvWR{ID: 2, SGL: []verbs.SGE{rb.sge(0, 1)}})
		from.send(
			work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited,
				SGL: []verbs.SGE{ra.sge(0, k), ra.sge(k, n-k)}}},
			work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{ra.sge(0, n)},
				Remote: at(rb, n)}},
			work{SendWR: verbs.SendWR{ID: 3, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{ra.sge(2*n, n)},
				Remote: at(rb, n)}},
			work{SendWR: verbs.SendWR{ID: 4, Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Fence,
				SGL: []verbs.SGE{ra.sge(0, 1)}}})
		for j, op := range []verbs.WCOp{verbs.WCSend, verbs.WCWrite, verbs.WCRead, verbs.WCSend} {
			want(t, from.wait(1)[0], uint64(j+1), op)
		}
		wc := to.wait(2)
		want(t, wc[0], 1, verbs.WCRecv)
		want(t, wc[1], 2, verbs.WCRecv)
		if wc[0].ByteLen != uint32(n) {
			t.Fatalf("%s: %d bytes arrived of %d", from.name, wc[0].ByteLen, n)
		}
		for what, r := range map[string]struct {
			region
			off int
		}{"SEND": {rb, 0}, "WRITE": {rb, n}, "READ": {ra, 2 * n}} {
			if j := r.differs(seed, r.off, n); j >= 0 {
				t.Fatalf("%v of %s: byte %d of %d differs", what, from.name, j, n)
			}
		}
	}
}

// at is a place in a region.
func at(r region, off int) verbs.Remote {
	a := r.remote()
	a.Addr += uint64(off)
	return a
}

// close ends the connection from Ramjet's side, and waits for siw's to hear of it.
func (s *iwStream) close(t testing.TB) {
	t.Helper()
	s.m.ok(s.id.Disconnect())
	s.m.event(cm.Disconnected)
	var answer struct{ Event string }
	s.g.call("iw_event", nil, &answer)
	if answer.Event != "DISCONNECTED" {
		t.Errorf("siw's event is %s", answer.Event)
	}
	s.m.ok(s.id.Close())
}

// TestIWARPOperations moves messages of many lengths, both ways, over connections that either
// side has requested.
func TestIWARPOperations(t *testing.T) {
	eachIW(t, func(t *testing.T, p *iwPair) {
		s := p.stream()
		for _, n := range []int{3, 64, 1461, 8961, 70_001, iwLargest} {
			s.exchange(t, n)
		}
		s.close(t)
	})
	t.Run("IPv6", func(t *testing.T) {
		s := openIW(t, iwFamilies[1], nil, true).stream()
		s.exchange(t, 100_000)
		s.close(t)
	})
}

// TestIWARPReads has more READs wait than either side may have in flight.
func TestIWARPReads(t *testing.T) {
	const n, count = 5000, 40
	for _, deep := range []int{1, 4} {
		eachIW(t, func(t *testing.T, p *iwPair) {
			p.deep = deep
			s := p.stream()
			for _, d := range s.directions() {
				from, to := d[0], d[1]
				ra, rb := from.region(n*count+guard, verbs.LocalWrite),
					to.region(n*count+guard, verbs.LocalWrite|verbs.RemoteRead)
				rb.fill(9, 0, n*count)
				for i := range count {
					from.send(work{SendWR: verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, Flags: verbs.Signaled,
						SGL: []verbs.SGE{ra.sge(i*n, n)}, Remote: at(rb, i*n)}})
				}
				for i, wc := range from.wait(count) {
					want(t, wc, uint64(i), verbs.WCRead)
				}
				wantPattern(t, ra, 9, 0, n*count)
			}
			s.close(t)
		})
	}
}

// TestIWARPSolicited has Ramjet wake for a solicited message of siw's, and not for the one
// before it.
func TestIWARPSolicited(t *testing.T) {
	p := openIW(t, iwFamilies[0], nil, true)
	ch, err := p.m.dev.CreateCompChannel()
	p.channel = must(t, ch, err)
	s := p.stream()
	s.a.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	p.m.ok(s.a.cq.ReqNotify(true))
	s.b.send(work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled}},
		work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled | verbs.Solicited}})
	if cq, err := ch.Wait(p.m.ctx); err != nil || cq != s.a.cq {
		t.Fatalf("the event is of another queue: %v", err)
	}
	var wcs [2]verbs.WC
	if n := s.a.cq.Poll(wcs[:]); n != 2 {
		t.Errorf("%d messages when the event came, want 2", n)
	}
	s.close(t)
}

// TestIWARPSharedReceives has messages of two connections go into one queue of receives, on
// both sides.
func TestIWARPSharedReceives(t *testing.T) {
	eachIW(t, func(t *testing.T, p *iwPair) {
		theirQueue := &guestSRQ{g: p.g}
		p.g.call("srq_create", args{"max_sge": 4}, theirQueue)
		p.srqM, p.srqG = p.m.sharedQueue(), theirQueue
		const n = 3000
		mine, theirs := p.m.region(8*n, verbs.LocalWrite), p.g.region(8*n, verbs.LocalWrite)
		for i := range 8 {
			p.srqM.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{mine.sge(i*n, n)}})
			p.srqG.recv(verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{theirs.sge(i*n, n)}})
		}
		x := p.stream()
		from, to := p.m.region(n, verbs.LocalWrite), p.g.region(n, verbs.LocalWrite)
		from.fill(1, 0, n)
		to.fill(2, 0, n)
		for i := range 4 {
			x.a.send(work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{from.sge(0, n)}}})
			want(t, x.a.wait(1)[0], 1, verbs.WCSend)
			want(t, x.b.wait(1)[0], uint64(i), verbs.WCRecv)
			x.b.send(work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{to.sge(0, n)}}})
			want(t, x.b.wait(1)[0], 2, verbs.WCSend)
			want(t, x.a.wait(1)[0], uint64(i), verbs.WCRecv)
			if j, k := theirs.differs(1, i*n, n), mine.differs(2, i*n, n); j >= 0 || k >= 0 {
				t.Errorf("message %d differs at %d and %d", i, j, k)
			}
		}
		x.close(t)
	})
}

// TestIWARPInvalidate has each side invalidate the other's key with a SEND, after which it
// opens nothing any more.
func TestIWARPInvalidate(t *testing.T) {
	const n = 100
	t.Run("by Ramjet", func(t *testing.T) {
		s := openIW(t, iwFamilies[0], nil, true).stream()
		mine, theirs := s.m.region(n, verbs.LocalWrite), s.g.region(2*n, verbs.LocalWrite|verbs.RemoteRead)
		box := s.g.region(n, verbs.LocalWrite)
		s.b.recv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{box.sge(0, n)}})
		s.a.send(work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{mine.sge(0, n)}, Remote: theirs.remote()}},
			work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSendInv, Flags: verbs.Signaled | verbs.Fence,
				SGL: []verbs.SGE{mine.sge(0, n)}, InvKey: theirs.remote().Key}})
		want(t, s.a.wait(1)[0], 1, verbs.WCRead)
		want(t, s.a.wait(1)[0], 2, verbs.WCSend)
		wc := s.b.wait(1)[0]
		want(t, wc, 1, verbs.WCRecv)
		s.a.send(work{SendWR: verbs.SendWR{ID: 3, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{mine.sge(0, n)}, Remote: theirs.remote()}})
		wantStatus(t, s.a.wait(1)[0], 3, verbs.StatusRemoteAccessError)
	})
	t.Run("by siw", func(t *testing.T) {
		s := openIW(t, iwFamilies[0], nil, false).stream()
		mine, theirs := s.m.region(2*n, verbs.LocalWrite|verbs.MWBind), s.g.region(n, verbs.LocalWrite)
		w := s.m.window(verbs.MWType2)
		key := s.a.bind(1, w, mine, 0, n, verbs.RemoteRead)
		s.a.recv(verbs.RecvWR{ID: 2, SGL: []verbs.SGE{mine.sge(n, n)}})
		remote := verbs.Remote{Addr: mine.remote().Addr, Key: key}
		s.b.send(work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{theirs.sge(0, n)}, Remote: remote}})
		want(t, s.b.wait(1)[0], 1, verbs.WCRead)
		s.b.send(work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSendInv, Flags: verbs.Signaled,
			SGL: []verbs.SGE{theirs.sge(0, n)}, InvKey: key}})
		want(t, s.b.wait(1)[0], 2, verbs.WCSend)
		wc := s.a.wait(1)[0]
		want(t, wc, 2, verbs.WCRecv)
		if wc.Flags&verbs.WithInv == 0 || wc.InvKey != key {
			t.Errorf("the receive says flags %v, key %#x; want %#x", wc.Flags, wc.InvKey, key)
		}
		s.b.send(work{SendWR: verbs.SendWR{ID: 3, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{theirs.sge(0, n)}, Remote: remote}})
		wantStatus(t, s.b.wait(1)[0], 3, verbs.StatusWRFlushError) // siw flushes for every cause
		s.g.wantTerminate(t, wire.ProtectionSTag)
	})
}

// ended waits for the end of a connection, as Ramjet's program hears of it.
func (s *iwStream) ended(t testing.TB) {
	t.Helper()
	s.m.event(cm.Disconnected)
	if got := s.a.state(); got != verbs.StateError {
		t.Errorf("Ramjet's queue pair is in %v", got)
	}
}
