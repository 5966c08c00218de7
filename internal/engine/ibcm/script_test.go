// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A script drives one engine; the test plays the peer, message by message.
type script struct {
	*testing.T
	e   *Engine
	now clock.Time
}

const testService = mad.ServiceID(0x1061d2f) // TCP port space, port 7471

func addr(s string) verbs.AHAttr {
	return verbs.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr(s)), HopLimit: 64}
}

var peerAddr = addr("192.0.2.1")

const peerID = mad.CommID(0x77)

func newScript(t *testing.T, c Config) *script {
	if c.CAGUID == 0 {
		c.CAGUID = 0xabc
	}
	c.Key[0] = 1
	return &script{T: t, e: New(c), now: 1e9}
}

func listening(t *testing.T) *script {
	s := newScript(t, Config{})
	s.ok(s.e.Listen(ListenParams{Service: testService}))
	return s
}

func (s *script) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *script) fails(err, want error) {
	s.Helper()
	var op *verbs.OpError
	if !errors.Is(err, want) || !errors.As(err, &op) || op.Detail == "" {
		s.Fatalf("error %v, want %v with a detail", err, want)
	}
}

// says lets the peer send a message.
func (s *script) says(a mad.Attribute, tid uint64, m message) {
	s.e.HandleMAD(s.now, peerAddr, encode(a, tid, m)[:])
}

// wants takes the next datagram of the engine, and decodes it into m, which
// starts out zero.
func (s *script) wants(a mad.Attribute, m interface{ Decode([]byte) bool }) mad.Header {
	s.Helper()
	var o Datagram
	if !s.e.NextMAD(&o) {
		s.Fatalf("nothing is sent, want %v", a)
	}
	var h mad.Header
	if !h.Decode(o.MAD[:]) || h.Attribute != a || h != mad.CMHeader(a, h.TID) || o.To != peerAddr {
		s.Fatalf("sends %+v to %v, want %v", h, o.To.DGID, a)
	}
	if !m.Decode(o.MAD[mad.HeaderLen:]) {
		s.Fatalf("%v does not decode", a)
	}
	return h
}

// event takes the next event.
func (s *script) event(k EventKind) (ev Event) {
	s.Helper()
	if !s.e.NextEvent(&ev) || ev.Kind != k {
		s.Fatalf("event %v, want %v", ev.Kind, k)
	}
	return ev
}

// quiet checks that nothing comes out.
func (s *script) quiet() {
	s.Helper()
	var o Datagram
	var ev Event
	if s.e.NextMAD(&o) {
		s.Fatalf("sends %v", mad.Attribute(uint16(o.MAD[16])<<8|uint16(o.MAD[17])))
	}
	if s.e.NextEvent(&ev) {
		s.Fatalf("event %v", ev.Kind)
	}
}

// passes lets time pass, by the engine's deadlines.
func (s *script) passes(d time.Duration) {
	end := s.now + clock.Time(d)
	for t := s.e.Deadline(); t != 0 && t <= end; t = s.e.Deadline() {
		if t < s.now {
			s.Fatalf("a deadline of the past: %d, now %d", t, s.now)
		}
		s.now = t
		s.e.HandleTimeout(t)
	}
	s.now = end
}

// gone checks that the engine holds nothing any more, after all time.
func (s *script) gone() {
	s.Helper()
	s.passes(time.Hour)
	s.quiet()
	e := s.e
	if len(e.byID)+len(e.requests)+len(e.byQP)+len(e.deadlines)+len(e.refused) != 0 || e.Connections() != 0 ||
		e.Deadline() != 0 {
		s.Fatalf("left over: %d IDs, %d requests, %d remote QPs, %d deadlines, %d refused",
			len(e.byID), len(e.requests), len(e.byQP), len(e.deadlines), len(e.refused))
	}
	for _, l := range e.services {
		if n := l.unanswered.Len() + l.halfOpen.Len() + len(l.sources); n != 0 || l.busiest != nil {
			s.Fatalf("a listener's backlog has %d places and sources", n)
		}
	}
}

func params() *ConnectParams {
	return &ConnectParams{To: peerAddr, LocalGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.7")),
		Service: testService, QPN: 0x11, StartingPSN: 0x123456, PathMTU: verbs.MTU1024, ResponderResources: 4,
		InitiatorDepth: 5,
		RetryCount:     7, RNRRetryCount: 6, PrivateData: []byte("hello")}
}

func request() *mad.REQ {
	m := &mad.REQ{LocalCommID: peerID, ServiceID: testService, LocalCAGUID: 0xdef, LocalQPN: 0x22,
		StartingPSN: 0x654321, RemoteTimeout: 20, LocalTimeout: 18, MaxCMRetries: 3, PathMTU: 3, RetryCount: 7,
		RNRRetryCount: 7,
		PKey:          ib.DefaultPKey,
		Primary:       mad.Path{LocalGID: peerAddr.DGID, AckTimeout: 17}}
	copy(m.Private[:], "hi there")
	return m
}

const reqTID = 0x2_0000_0077

// connecting is a script whose REQ was sent.
func connecting(t *testing.T) (*script, mad.CommID, mad.REQ, uint64) {
	s := newScript(t, Config{})
	id, err := s.e.Connect(s.now, params())
	s.ok(err)
	var req mad.REQ
	h := s.wants(mad.AttrREQ, &req)
	return s, id, req, h.TID
}

func reply(id mad.CommID) *mad.REP {
	return &mad.REP{LocalCommID: peerID, RemoteCommID: id, LocalQPN: 0x22, StartingPSN: 1, AckDelay: 15,
		ResponderResources: 3, InitiatorDepth: 2}
}

// connected is a script with an established connection that it asked for.
func connected(t *testing.T) (*script, mad.CommID, uint64) {
	s, id, _, tid := connecting(t)
	s.says(mad.AttrREP, tid, reply(id))
	s.event(EventReply)
	s.ok(s.e.Ready(s.now, id, nil))
	s.wants(mad.AttrRTU, &mad.RTU{})
	s.quiet()
	return s, id, tid
}

// accepting is a script whose REP was sent.
func accepting(t *testing.T) (*script, mad.CommID) {
	s := listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	ev := s.event(EventRequest)
	s.ok(s.e.Accept(s.now, ev.ID, &AcceptParams{QPN: 0x11, StartingPSN: 9, ResponderResources: 1, InitiatorDepth: 2,
		RNRRetryCount: 7, PrivateData: []byte("yes")}))
	s.wants(mad.AttrREP, &mad.REP{})
	return s, ev.ID
}

// accepted is a script with an established connection that it was asked for.
func accepted(t *testing.T) (*script, mad.CommID) {
	s, id := accepting(t)
	s.says(mad.AttrRTU, reqTID, &mad.RTU{LocalCommID: peerID, RemoteCommID: id})
	s.event(EventEstablished)
	s.quiet()
	return s, id
}

func TestActive(t *testing.T) {
	s, id, req, tid := connecting(t)
	want := mad.REQ{LocalCommID: id, ServiceID: testService, LocalCAGUID: 0xabc, LocalQPN: 0x11, ResponderResources: 4,
		InitiatorDepth: 5, RemoteTimeout: 18, LocalTimeout: 18, StartingPSN: 0x123456, RetryCount: 7, RNRRetryCount: 6,
		PKey: ib.DefaultPKey, PathMTU: 3, MaxCMRetries: 15,
		Primary: mad.Path{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: params().LocalGID, RemoteGID: peerAddr.DGID,
			HopLimit: 64, AckTimeout: 17}}
	copy(want.Private[:], "hello")
	if req != want {
		t.Errorf("REQ %+v, want %+v", req, want)
	}
	if mad.CommID(tid) != id || tid>>32 == 0 {
		t.Errorf("TID %#x of ID %#x", tid, id)
	}
	s.quiet()
	rep := reply(id)
	copy(rep.Private[:], "welcome")
	s.says(mad.AttrREP, tid, rep)
	ev := s.event(EventReply)
	if ev.ID != id || *ev.REP != *rep || !bytes.HasPrefix(ev.Private, []byte("welcome")) {
		t.Errorf("reply %+v", ev)
	}
	if s.e.Deadline() != 0 {
		t.Error("a deadline while the program has to answer")
	}
	s.fails(s.e.Accept(s.now, id, &AcceptParams{}), verbs.ErrState)
	s.fails(s.e.Disconnect(s.now, id, nil), verbs.ErrState)
	s.ok(s.e.Ready(s.now, id, []byte("go")))
	var rtu mad.RTU
	if h := s.wants(mad.AttrRTU, &rtu); h.TID != tid || rtu.LocalCommID != id || rtu.RemoteCommID != peerID ||
		string(rtu.Private[:3]) != "go\x00" {
		t.Errorf("RTU %+v", rtu)
	}
	s.fails(s.e.Ready(s.now, id, nil), verbs.ErrState)
	// An established connection costs no time.
	s.passes(time.Hour)
	s.quiet()
	s.ok(s.e.Disconnect(s.now, id, []byte("bye")))
	var dreq mad.DREQ
	h := s.wants(mad.AttrDREQ, &dreq)
	if h.TID == tid || mad.CommID(h.TID) != id || dreq.RemoteQPN != 0x22 || dreq.RemoteCommID != peerID ||
		string(dreq.Private[:3]) != "bye" {
		t.Errorf("DREQ %+v", dreq)
	}
	s.says(mad.AttrDREP, h.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
	s.event(EventDisconnected)
	s.ok(s.e.Disconnect(s.now, id, nil)) // too late, not wrong
	s.quiet()
	s.passes(mad.Timeout(17).Duration() - 1)
	s.quiet()
	s.passes(1)
	if ev := s.event(EventTimeWaitExit); !ev.Kind.Final() || ev.ID != id {
		t.Errorf("last event %+v", ev)
	}
	s.fails(s.e.Disconnect(s.now, id, nil), ErrNotFound)
	s.gone()
}

// The peer says how long packets of a connection may be under way, and with it how long its queue pair is not to be
// used again. It is given no more than 17 s, 4.096 µs << 22, of that, and all that it asks for below.
func TestTimeWait(t *testing.T) {
	for delay, want := range map[uint8]mad.Timeout{15: 17, 20: 21, 21: 22, 22: 22, 31: 22} {
		s, id, _, tid := connecting(t)
		rep := reply(id)
		rep.AckDelay = mad.Timeout(delay)
		s.says(mad.AttrREP, tid, rep)
		s.event(EventReply)
		s.ok(s.e.Ready(s.now, id, nil))
		s.wants(mad.AttrRTU, &mad.RTU{})
		s.ok(s.e.Disconnect(s.now, id, nil))
		h := s.wants(mad.AttrDREQ, &mad.DREQ{})
		s.says(mad.AttrDREP, h.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
		s.event(EventDisconnected)
		s.passes(want.Duration() - 1)
		s.quiet()
		s.passes(1)
		s.event(EventTimeWaitExit)
	}
}

func TestPassive(t *testing.T) {
	s := listening(t)
	req := request()
	s.says(mad.AttrREQ, reqTID, req)
	ev := s.event(EventRequest)
	if *ev.REQ != *req || ev.From != peerAddr || ev.Listener != testService ||
		!bytes.HasPrefix(ev.Private, []byte("hi there")) {
		t.Errorf("request %+v", ev)
	}
	s.quiet()
	s.ok(s.e.Accept(s.now, ev.ID, &AcceptParams{QPN: 0x11, StartingPSN: 9, ResponderResources: 1, InitiatorDepth: 2,
		RNRRetryCount: 5, PrivateData: []byte("yes")}))
	var rep mad.REP
	h := s.wants(mad.AttrREP, &rep)
	want := mad.REP{LocalCommID: ev.ID, RemoteCommID: peerID, LocalQPN: 0x11, StartingPSN: 9, ResponderResources: 1,
		InitiatorDepth: 2, AckDelay: 15, RNRRetryCount: 5, LocalCAGUID: 0xabc}
	copy(want.Private[:], "yes")
	if rep != want || h.TID != reqTID {
		t.Errorf("REP %+v, want %+v", rep, want)
	}
	rtu := &mad.RTU{LocalCommID: peerID, RemoteCommID: ev.ID}
	rtu.Private[0] = 5
	s.says(mad.AttrRTU, reqTID, rtu)
	if got := s.event(EventEstablished); got.ID != ev.ID || got.Private[0] != 5 {
		t.Errorf("established %+v", got)
	}
	s.says(mad.AttrRTU, reqTID, rtu)
	s.quiet()
	dreq := &mad.DREQ{LocalCommID: peerID, RemoteCommID: ev.ID, RemoteQPN: 0x12}
	s.says(mad.AttrDREQ, 99, dreq)
	s.quiet() // not our QP
	dreq.RemoteQPN, dreq.Private[0] = 0x11, 7
	for range 3 { // each repetition is answered
		s.says(mad.AttrDREQ, 99, dreq)
		var drep mad.DREP
		if h := s.wants(mad.AttrDREP, &drep); h.TID != 99 || drep.LocalCommID != ev.ID || drep.RemoteCommID != peerID {
			t.Errorf("DREP %+v", drep)
		}
	}
	if got := s.event(EventDisconnected); got.Private[0] != 7 {
		t.Errorf("disconnected %+v", got)
	}
	s.quiet()
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.says(mad.AttrDREQ, 99, dreq) // the DREP was lost until now
	s.wants(mad.AttrDREP, &mad.DREP{})
	s.gone()
}

// The deadlines of a conversation that is never answered: the first message
// and its repetitions, evenly spaced.
func TestUnanswered(t *testing.T) {
	type run struct {
		name  string
		s     *script
		a     mad.Attribute
		n     int
		final EventKind
	}
	var runs []run
	s, _, _, _ := connecting(t)
	runs = append(runs, run{"REQ", s, mad.AttrREQ, 15, EventUnreachable})
	s, _ = accepting(t)
	runs = append(runs, run{"REP", s, mad.AttrREP, 3, EventUnreachable})
	s, id, _ := connected(t)
	s.ok(s.e.Disconnect(s.now, id, nil))
	s.wants(mad.AttrDREQ, &mad.DREQ{})
	for range earlyRepeats {
		s.passes(mad.Timeout(17).Duration() / 2)
		s.wants(mad.AttrDREQ, &mad.DREQ{})
	}
	runs = append(runs, run{"DREQ", s, mad.AttrDREQ, 15, EventDisconnected})
	s = newScript(t, Config{})
	_, err := s.e.Resolve(s.now, &ResolveParams{To: peerAddr, Service: testService})
	s.ok(err)
	s.wants(mad.AttrSIDRREQ, &mad.SIDRREQ{})
	runs = append(runs, run{"SIDR_REQ", s, mad.AttrSIDRREQ, 15, EventUnreachable})

	interval := mad.Timeout(18).Duration()
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			r.s.T = t
			for i := range r.n {
				r.s.passes(interval - 1)
				r.s.quiet()
				r.s.passes(1)
				r.s.wants(r.a, newDecoder(r.a))
				if t.Failed() {
					t.Fatalf("at repetition %d", i)
				}
			}
			r.s.passes(interval - 1)
			r.s.quiet()
			r.s.passes(1)
			if r.a == mad.AttrREQ || r.a == mad.AttrREP {
				var rej mad.REJ
				r.s.wants(mad.AttrREJ, &rej)
				if rej.Reason != mad.RejTimeout || rej.ARILen != 8 ||
					!bytes.Equal(rej.ARI[:8], []byte{0, 0, 0, 0, 0, 0, 0xa, 0xbc}) {
					t.Errorf("REJ %+v", rej)
				}
			}
			ev := r.s.event(r.final)
			if r.final == EventUnreachable && ev.Message != r.a {
				t.Errorf("%v is unreachable, want %v", ev.Message, r.a)
			}
			if r.final == EventDisconnected {
				r.s.passes(time.Second)
				r.s.event(EventTimeWaitExit)
			}
			r.s.gone()
		})
	}
}

func newDecoder(a mad.Attribute) interface{ Decode([]byte) bool } {
	switch a {
	case mad.AttrREQ:
		return &mad.REQ{}
	case mad.AttrREP:
		return &mad.REP{}
	case mad.AttrDREQ:
		return &mad.DREQ{}
	case mad.AttrSIDRREQ:
		return &mad.SIDRREQ{}
	}
	panic(fmt.Sprint(a))
}
