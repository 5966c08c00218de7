// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// An attacker that forges the address of the peer, and knows all about a connection but the transaction
// ID, which only the connection's messages have, ends nothing and changes nothing.
func TestForgedMessages(t *testing.T) {
	type begun struct {
		name string
		s    *script
		id   mad.CommID
	}
	var all []begun
	add := func(name string, s *script, id mad.CommID) { all = append(all, begun{name, s, id}) }
	s, id, _, _ := connecting(t)
	add("REQ sent", s, id)
	s, id, _, tid := connecting(t)
	s.says(mad.AttrREP, tid, reply(id))
	s.event(EventReply)
	add("REP received", s, id)
	s = listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	add("REQ received", s, s.event(EventRequest).ID)
	s, id = accepting(t)
	add("REP sent", s, id)
	s, id, _ = connected(t)
	add("established, active", s, id)
	s, id = accepted(t)
	add("established, passive", s, id)
	s, id, _ = connected(t)
	s.ok(s.e.Disconnect(s.now, id, nil))
	s.wants(mad.AttrDREQ, &mad.DREQ{})
	add("DREQ sent", s, id)

	for _, c := range all {
		was := *c.s.e.byID[c.id]
		for _, tid := range []uint64{0, 1, reqTID + 1, uint64(c.id), 1<<32 | uint64(c.id), was.tid ^ 1<<63} {
			for _, m := range []mad.Message{mad.MessageREQ, mad.MessageREP, mad.MessageOther} {
				for _, r := range []mad.Reason{mad.RejTimeout, mad.RejConsumer, mad.RejStaleConnection,
					mad.RejInvalidCommID} {
					rej := withdrawal(peerID)
					rej.RemoteCommID, rej.Message, rej.Reason = c.id, m, r
					c.s.says(mad.AttrREJ, tid, rej)
					rej.RemoteCommID = 0
					c.s.says(mad.AttrREJ, tid, rej)
				}
				c.s.says(mad.AttrMRA, tid, &mad.MRA{LocalCommID: peerID, RemoteCommID: c.id, Message: m,
					ServiceTimeout: 31})
			}
			c.s.says(mad.AttrREP, tid, reply(c.id))
			c.s.says(mad.AttrRTU, tid, &mad.RTU{LocalCommID: peerID, RemoteCommID: c.id})
			c.s.says(mad.AttrDREP, tid, &mad.DREP{LocalCommID: peerID, RemoteCommID: c.id})
		}
		// A DREQ begins a transaction. It must have the QP of the connection here.
		c.s.says(mad.AttrDREQ, 1, &mad.DREQ{LocalCommID: peerID, RemoteCommID: c.id, RemoteQPN: 0x12})
		// Nor does an attacker that knows only the transaction ID.
		c.s.says(mad.AttrREJ, was.tid, &mad.REJ{LocalCommID: peerID + 1, RemoteCommID: c.id + 1,
			Reason: mad.RejTimeout})
		for o := (Datagram{}); c.s.e.NextMAD(&o); {
		}
		c.s.quiet()
		if now := *c.s.e.byID[c.id]; now.state != was.state || now.repeat != was.repeat ||
			now.deadline != was.deadline {
			t.Errorf("%s: %+v became %+v", c.name, was, now)
		}
		if err := consistent(c.s.e); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}

	// A resolution.
	s = newScript(t, Config{})
	id, err := s.e.Resolve(s.now, &ResolveParams{To: peerAddr, Service: testService})
	s.ok(err)
	h := s.wants(mad.AttrSIDRREQ, &mad.SIDRREQ{})
	s.says(mad.AttrSIDRREP, h.TID+1<<32, &mad.SIDRREP{RequestID: id, QPN: 0x666})
	s.quiet()
	s.says(mad.AttrSIDRREP, h.TID, &mad.SIDRREP{RequestID: id, QPN: 0x22})
	s.event(EventService)
}

// A withdrawal without our ID has the CA GUID of the requester.
func TestForgedWithdrawal(t *testing.T) {
	s := listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	s.event(EventRequest)
	rej := withdrawal(peerID)
	rej.ARI[7]++
	s.says(mad.AttrREJ, reqTID, rej)
	s.quiet()
	s.says(mad.AttrREJ, reqTID, withdrawal(peerID))
	s.event(EventRejected)
	s.gone()
}

// A REQ in the name of a peer that has a connection, with the peer's QP, its ID, or both: a sender
// that does not see the REP cannot confirm it, and the connection stays.
func TestForgedREQ(t *testing.T) {
	for _, change := range []func(*mad.REQ){
		func(m *mad.REQ) { m.LocalCommID++ },
		func(m *mad.REQ) { m.LocalQPN++ },
		func(m *mad.REQ) {},
	} {
		for _, begin := range []func() (*script, mad.CommID){
			func() (*script, mad.CommID) { return accepted(t) },
			func() (*script, mad.CommID) {
				s, id, _ := connected(t)
				s.ok(s.e.Listen(ListenParams{Service: testService}))
				return s, id
			},
		} {
			s, old := begin()
			req := request()
			change(req)
			s.says(mad.AttrREQ, reqTID+5, req)
			id := s.event(EventRequest).ID
			s.ok(s.e.Accept(s.now, id, &AcceptParams{QPN: 0x12}))
			s.says(mad.AttrRTU, reqTID+5, &mad.RTU{LocalCommID: req.LocalCommID, RemoteCommID: id + 1}) // a guess
			s.passes(time.Hour)
			for o := (Datagram{}); s.e.NextMAD(&o); {
			}
			s.event(EventUnreachable)
			s.quiet()
			c := s.e.byID[old]
			if c == nil || c.state != established || s.e.byQP[c.remoteQP()] != c {
				t.Errorf("the old connection is %+v", c)
			}
		}
	}
}

// IDs and transaction IDs of an engine do not let a peer predict others.
func TestUnpredictableNames(t *testing.T) {
	s := newScript(t, Config{IDBase: 0x3000_0000, IDMask: 0xf000_0000})
	near, sameTID := 0, 0
	var last mad.CommID
	var lastTID uint64
	for range 1000 {
		id, err := s.e.Connect(s.now, params())
		s.ok(err)
		h := s.wants(mad.AttrREQ, &mad.REQ{})
		if id>>28 != 3 || mad.CommID(h.TID) != id {
			t.Fatalf("ID %#x, transaction ID %#x", id, h.TID)
		}
		if d := int32(id - last); d > -1000 && d < 1000 {
			near++
		}
		if h.TID>>32 == lastTID>>32 {
			sameTID++
		}
		last, lastTID = id, h.TID
	}
	if near > 2 || sameTID > 0 {
		t.Errorf("of 1000 IDs %d are near the one before; %d transaction IDs go on", near, sameTID)
	}
}

// A flood is a script whose listener gets forged requests, and whose program accepts everything.
type flood struct {
	*script
	n    int
	open map[mad.CommID]bool // accepted, and not ended
	most int
	REPs int
}

func newFlood(t *testing.T, backlog int) *flood {
	s := newScript(t, Config{})
	s.ok(s.e.Listen(ListenParams{Service: testService, Backlog: backlog}))
	return &flood{script: s, open: map[mad.CommID]bool{}}
}

// drain lets the program accept, and takes the datagrams for host.
func (f *flood) drain(host *mad.REP, at *verbs.AHAttr) (got bool) {
	for ev := (Event{}); f.e.NextEvent(&ev); {
		switch ev.Kind {
		case EventRequest:
			f.ok(f.e.Accept(f.now, ev.ID, &AcceptParams{QPN: 1}))
			f.open[ev.ID] = true
		case EventUnreachable:
			delete(f.open, ev.ID)
		}
	}
	f.most = max(f.most, len(f.open))
	for o := (Datagram{}); f.e.NextMAD(&o); {
		if mad.Attribute(o.MAD[17]) == mad.AttrREP {
			f.REPs++
			if at != nil && o.To.DGID == at.DGID {
				host.Decode(o.MAD[mad.HeaderLen:])
				got = true
			}
		}
	}
	return got
}

// forge sends the REQ of a host that will not be heard again.
func (f *flood) forge(from verbs.AHAttr) {
	f.n++
	req := request()
	req.LocalCommID, req.LocalQPN, req.MaxCMRetries = mad.CommID(f.n), ib.QPN(f.n&0xffffff), 15
	f.e.HandleMAD(f.now, from, encode(mad.AttrREQ, uint64(f.n), req)[:])
}

// stranger returns one of many addresses.
func stranger(n int) verbs.AHAttr {
	a := addr("198.18.0.0")
	a.DGID[13], a.DGID[14], a.DGID[15] = byte(18+n>>16&1), byte(n>>8), byte(n)
	return a
}

// TestFloodedListener floods a listener with forged requests, 3,000 at once or each second, of one
// address, of many, or of that of the honest peer itself. Then the honest peer asks, as Ramjet's
// and Linux's do. It repeats its REQ twice at most, and its RTU takes the time of a long way.
//
// If all requests are from different addresses, or all from the honest peer's, their rate is 0.9 of
// the rate that the listener bears: its places, or half of them, each silentHalfOpen.
func TestFloodedListener(t *testing.T) {
	honest := addr("192.0.2.99")
	for name, from := range map[string]func(n int) verbs.AHAttr{
		"one address":          func(int) verbs.AHAttr { return peerAddr },
		"four addresses":       func(n int) verbs.AHAttr { return stranger(n % 4) },
		"an address each":      stranger,
		"the honest one's own": func(int) verbs.AHAttr { return honest },
	} {
		for _, goesOn := range []bool{false, true} {
			for _, backlog := range []int{1, 1024} {
				f := newFlood(t, backlog)
				room := max(backlog, minHalfOpen)
				rate := 3.0 // a ms
				switch name {
				case "an address each":
					rate = min(rate, 0.9*float64(room)/250)
				case "the honest one's own":
					rate = min(rate, 0.9*float64(room)/2/250)
				}
				due := 0.0
				goOn := func() {
					for due += rate; goesOn && due >= 1; due-- {
						f.forge(from(f.n))
						f.drain(nil, nil)
					}
				}
				start, repeats, up := f.now, -1, false
				var rep mad.REP
				for f.now < start+clock.Time(8*time.Second) && !up {
					ms := (f.now - start) / clock.Time(time.Millisecond)
					for range 3000 {
						if ms != 100 || goesOn {
							break
						}
						f.forge(from(f.n))
						f.drain(nil, nil)
					}
					goOn()
					if at := ms - 3000; at >= 0 && at%1074 == 0 && goesOn || !goesOn && ms > 100 && (ms-101)%1074 == 0 {
						req := request()
						req.LocalCommID, req.LocalQPN = 0xabcdef, 0xabcdef
						f.e.HandleMAD(f.now, honest, encode(mad.AttrREQ, 42, req)[:])
						repeats++
					}
					if f.drain(&rep, &honest) && rep.RemoteCommID == 0xabcdef {
						for range 100 { // ms to the peer and back, during which the flood goes on
							f.passes(time.Millisecond)
							goOn()
						}
						f.e.HandleMAD(f.now, honest,
							encode(mad.AttrRTU, 42, &mad.RTU{LocalCommID: 0xabcdef, RemoteCommID: rep.LocalCommID})[:])
						for ev := (Event{}); f.e.NextEvent(&ev); {
							up = up || ev.Kind == EventEstablished && ev.ID == rep.LocalCommID
						}
						if !up {
							t.Errorf("%s, goes on %v, backlog %d: the connection gave way before its RTU", name, goesOn,
								backlog)
							break
						}
					}
					f.passes(time.Millisecond)
				}
				t.Logf("%s, goes on %v, backlog %d: after %d repetitions; %d forged requests, at most %d half-open connections, %d REPs",
					name, goesOn, backlog, repeats, f.n, f.most, f.REPs)
				if !up || repeats > 2 {
					t.Errorf("%s, goes on %v, backlog %d: established %v, after %d repetitions", name, goesOn, backlog,
						up, repeats)
				}
				if limit := 2*max(backlog, minHalfOpen) + 1; f.most > limit {
					t.Errorf("%s, backlog %d: %d half-open connections, more than %d", name, backlog, f.most, limit)
				}
				if err := consistent(f.e); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A program that does not come to accept: a source that has most of the places gives way, at once,
// and a peer that is not heard any more does.
func TestFloodedProgram(t *testing.T) {
	s := newScript(t, Config{})
	s.ok(s.e.Listen(ListenParams{Service: testService, Backlog: 16}))
	f := &flood{script: s}
	for range 100 {
		f.forge(peerAddr)
	}
	requests := func() (n int) {
		for ev := (Event{}); s.e.NextEvent(&ev); {
			switch ev.Kind {
			case EventRequest:
				n++
			case EventUnreachable:
				if ev.Message != 0 {
					t.Errorf("%v is unreachable", ev.Message)
				}
				n--
			}
		}
		return n
	}
	if n := requests(); n != 16 {
		t.Fatalf("%d requests", n)
	}
	f.forge(addr("192.0.2.99"))
	if n, l := requests(), s.e.services[testService]; n != 0 || len(l.sources) != 2 || l.unanswered.Len() != 16 {
		t.Fatalf("%d requests more, %d sources", n, len(l.sources))
	}
	// All of one source: they wait for the silent ones to leave.
	f.forge(peerAddr)
	s.passes(10*time.Second - 1)
	f.forge(peerAddr)
	if e := s.e.services[testService]; requests() != 0 || e.unanswered.Len() != 16 {
		t.Fatal("a request displaced one of its own source")
	}
	s.passes(1)
	for range 20 {
		f.forge(peerAddr)
	}
	if l := s.e.services[testService]; requests() != 0 || l.unanswered.Len() != 16 ||
		l.unanswered.Front().Value.(*conn).entry.lastHeard != s.now {
		t.Fatal("the silent requests are still there")
	}
	if err := consistent(s.e); err != nil {
		t.Fatal(err)
	}
	if o := (Datagram{}); s.e.NextMAD(&o) {
		t.Error("something was sent to who is dropped")
	}
}

// A forged REQ is answered with a REP, with five repetitions of it however many it asks for, and in the
// end with a REJ; a repetition of it with as many once more. The connection is open for as long as
// the REQ asks for, and a peer that has shown with an MRA that it gets them is sent all repetitions.
func TestFewREPsForUnheard(t *testing.T) {
	sent := func(s *script) (reps int) {
		t.Helper()
		for o := (Datagram{}); s.e.NextMAD(&o); {
			var h mad.Header
			h.Decode(o.MAD[:])
			if h.Attribute == mad.AttrREP {
				reps++
			}
		}
		return reps
	}
	begin := func() (*script, mad.CommID) {
		s := listening(t)
		r := request()
		r.MaxCMRetries = 15
		s.says(mad.AttrREQ, reqTID, r)
		id := s.event(EventRequest).ID
		s.ok(s.e.Accept(s.now, id, &AcceptParams{QPN: 0x11}))
		return s, id
	}
	s, id := begin()
	interval := time.Duration(s.e.byID[id].repeat.interval)
	s.passes(10 * interval)
	if n := sent(s); n != 6 {
		t.Errorf("%d REPs for one REQ, want 6", n)
	}
	s.says(mad.AttrREQ, reqTID, request())
	s.passes(5 * interval)
	if n := sent(s); n != 6 {
		t.Errorf("%d REPs for another REQ, want 6", n)
	}
	s.passes(interval)
	s.event(EventUnreachable)
	s.wants(mad.AttrREJ, &mad.REJ{})
	s.passes(time.Hour)
	s.gone()

	s, id = begin()
	s.says(mad.AttrMRA, reqTID, &mad.MRA{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageREP,
		ServiceTimeout: 0})
	s.event(EventMRA)
	s.passes(20 * interval)
	if n := sent(s); n < 16 {
		t.Errorf("%d REPs to a peer that asks for patience", n)
	}
}

// One source gets half of the places for half-open connections, each of two a third, and REPs are
// repeated less often where more than half are taken.
func TestHalfOpen(t *testing.T) {
	f := newFlood(t, 0)
	for range 1000 {
		f.forge(peerAddr)
		f.drain(nil, nil)
	}
	if f.most != minHalfOpen/2 || f.REPs != f.most {
		t.Errorf("one source has %d half-open connections, %d REPs", f.most, f.REPs)
	}
	for range minHalfOpen {
		f.forge(stranger(1))
		f.drain(nil, nil)
	}
	if f.most != minHalfOpen*3/4 {
		t.Errorf("two sources have %d half-open connections", f.most)
	}
	for range minHalfOpen {
		f.forge(stranger(f.n))
		f.drain(nil, nil)
	}
	if f.most != minHalfOpen || f.REPs != f.most {
		t.Errorf("%d half-open connections, %d REPs", f.most, f.REPs)
	}
	f.passes(4 * time.Second) // REP, and two more, and then the REJ
	f.drain(nil, nil)
	if len(f.open) != minHalfOpen/2 {
		t.Errorf("%d half-open connections after 4 s", len(f.open))
	}
	f.passes(time.Hour)
	f.drain(nil, nil)
	if len(f.open) != 0 {
		t.Errorf("%d half-open connections after an hour", len(f.open))
	}
	f.gone()
}
