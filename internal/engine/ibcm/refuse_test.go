// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// Defects of a REQ, and the reasons that it is rejected for.
func TestRefusedREQ(t *testing.T) {
	for _, c := range []struct {
		reason mad.Reason
		change func(*mad.REQ)
	}{
		{mad.RejInvalidServiceID, func(m *mad.REQ) { m.ServiceID++ }},
		{mad.RejInvalidCommID, func(m *mad.REQ) { m.LocalCommID = 0 }},
		{mad.RejInvalidTransportType, func(m *mad.REQ) { m.Transport = mad.TransportRD }},
		{mad.RejInvalidTransportType, func(m *mad.REQ) { m.Transport = mad.TransportExtended }},
		{mad.RejInvalidPathMTU, func(m *mad.REQ) { m.PathMTU = 0 }},
		{mad.RejInvalidPathMTU, func(m *mad.REQ) { m.PathMTU = 6 }},
	} {
		s := listening(t)
		req := request()
		c.change(req)
		s.says(mad.AttrREQ, reqTID, req)
		var rej mad.REJ
		if h := s.wants(mad.AttrREJ, &rej); h.TID != reqTID || rej.Reason != c.reason ||
			rej.Message != mad.MessageREQ ||
			rej.LocalCommID != 0 || rej.RemoteCommID != req.LocalCommID {
			t.Errorf("%v: REJ %+v", c.reason, rej)
		}
		s.gone()
	}
}

func TestRefusedVersion(t *testing.T) {
	s := listening(t)
	b := *encode(mad.AttrREQ, reqTID, request())
	b[2] = 1
	s.e.HandleMAD(s.now, peerAddr, b[:])
	var rej mad.REJ
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejInvalidClassVersion || rej.RemoteCommID != peerID ||
		rej.ARILen != 1 || rej.ARI[0] != 2 {
		t.Errorf("REJ %+v", rej)
	}
	// Datagrams of another base version or class, that are no Send, or too short, are ignored.
	for i, v := range map[int]byte{0: 2, 1: 3, 3: 1} {
		b := *encode(mad.AttrREQ, reqTID, request())
		b[i] = v
		s.e.HandleMAD(s.now, peerAddr, b[:])
	}
	b = *encode(mad.AttrREQ, reqTID, request())
	for n := range b {
		s.e.HandleMAD(s.now, peerAddr, b[:n])
	}
	s.gone()
}

// A full backlog drops requests, so that they come again; an answer makes room.
func TestBacklog(t *testing.T) {
	s := newScript(t, Config{})
	s.ok(s.e.Listen(ListenParams{Service: testService, Backlog: 2}))
	var ids []mad.CommID
	ask := func(i int) {
		req := request()
		req.LocalCommID += mad.CommID(i)
		req.LocalQPN += 1 + uint32QPN(i)
		s.says(mad.AttrREQ, reqTID+uint64(i), req)
	}
	for i := range 2 {
		ask(i)
		ids = append(ids, s.event(EventRequest).ID)
	}
	ask(2)
	s.quiet()
	s.ok(s.e.Accept(s.now, ids[0], &AcceptParams{}))
	s.wants(mad.AttrREP, &mad.REP{})
	ask(2)
	s.event(EventRequest)
	ask(3)
	s.quiet()
	// A peer that gives up makes room too.
	s.says(mad.AttrREJ, reqTID+1, withdrawal(peerID+1))
	if ev := s.event(EventRejected); ev.ID != ids[1] || ev.REJ.Reason != mad.RejTimeout {
		t.Errorf("rejected %+v", ev)
	}
	ask(4)
	s.event(EventRequest)
	// Without its listener, the rest is rejected.
	s.ok(s.e.Unlisten(s.now, testService, 0))
	var rej mad.REJ
	for range 2 {
		s.wants(mad.AttrREJ, &rej)
	}
	s.quiet()
	s.fails(s.e.Unlisten(s.now, testService, 0), ErrNotFound)
	ask(9)
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejInvalidServiceID {
		t.Errorf("REJ %+v", rej)
	}
	s.says(mad.AttrREJ, reqTID, &mad.REJ{LocalCommID: peerID, RemoteCommID: ids[0], Message: mad.MessageREP,
		Reason: mad.RejConsumer})
	s.event(EventRejected)
	s.gone()
}

// withdrawal is the REJ of a peer that does not wait for the answer to its REQ any more, and does
// not know our ID.
func withdrawal(id mad.CommID) *mad.REJ {
	rej := &mad.REJ{LocalCommID: id, Message: mad.MessageOther, Reason: mad.RejTimeout, ARILen: 8}
	binary.BigEndian.PutUint64(rej.ARI[:], request().LocalCAGUID)
	return rej
}

// Listeners with masks: the narrowest that matches gets the request.
func TestListenRange(t *testing.T) {
	s := newScript(t, Config{})
	s.ok(s.e.Listen(ListenParams{Service: 0x1060000, Mask: mad.IPServiceMask}))
	s.ok(s.e.Listen(ListenParams{Service: 0x1061d00, Mask: 0xffff_ffff_ffff_ff00}))
	s.ok(s.e.Listen(ListenParams{Service: 0x1061d00}))
	s.fails(s.e.Listen(ListenParams{Service: 0x1061234, Mask: mad.IPServiceMask}), ErrInUse)
	s.fails(s.e.Listen(ListenParams{Service: 0x1061d00}), ErrInUse)
	for i, c := range []struct{ service, listener mad.ServiceID }{{0x1061d00, 0x1061d00}, {0x1061d01, 0x1061d00},
		{0x1061e01, 0x1060000}} {
		req := request()
		req.ServiceID, req.LocalCommID, req.LocalQPN = c.service, peerID+mad.CommID(i), uint32QPN(i)
		s.says(mad.AttrREQ, reqTID, req)
		if ev := s.event(EventRequest); ev.Listener != c.listener {
			t.Errorf("request for %#x went to %#x", c.service, ev.Listener)
		}
	}
	s.ok(s.e.Unlisten(s.now, 0x1061d77, 0xffff_ffff_ffff_ff00))
	s.wants(mad.AttrREJ, &mad.REJ{})
	s.quiet()
	if s.e.match(0x1061d00) == nil || s.e.match(0x1061d01).Service != 0x1060000 {
		t.Error("Unlisten removed another listener")
	}
}

// The peer rejects, in every state.
func TestRejected(t *testing.T) {
	s, id, _, tid := connecting(t)
	rej := &mad.REJ{RemoteCommID: id, Message: mad.MessageREQ, Reason: mad.RejConsumer, ARILen: 1}
	rej.Private[0] = 3
	s.says(mad.AttrREJ, tid, &mad.REJ{RemoteCommID: id + 1, Reason: mad.RejConsumer})
	s.quiet()
	s.says(mad.AttrREJ, tid, rej)
	ev := s.event(EventRejected)
	if *ev.REJ != *rej || ev.ID != id || ev.Private[0] != 3 || !ev.Kind.Final() {
		t.Errorf("rejected %+v", ev)
	}
	s.says(mad.AttrREJ, tid, rej)
	s.fails(s.e.Disconnect(s.now, id, nil), ErrNotFound)
	s.gone()

	s, id = accepting(t)
	s.says(mad.AttrREJ, reqTID, &mad.REJ{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageREP,
		Reason: mad.RejNoQP})
	s.event(EventRejected)
	s.says(mad.AttrREQ, reqTID, request()) // was late
	s.gone()

	s, id, tid = connected(t)
	s.says(mad.AttrREJ, tid, &mad.REJ{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageOther,
		Reason: mad.RejInvalidCommID})
	s.event(EventDisconnected)
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.gone()

	s, id, tid = connected(t)
	s.ok(s.e.Disconnect(s.now, id, nil))
	s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.says(mad.AttrREJ, tid, &mad.REJ{LocalCommID: peerID, RemoteCommID: id, Message: mad.MessageOther,
		Reason: mad.RejInvalidCommID})
	s.event(EventDisconnected)
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.gone()
}

// A REQ from a QP that belongs to a connection: the peer has lost that connection, if the REQ is the
// peer's. That is certain once the peer has confirmed the new connection.
func TestStaleREQ(t *testing.T) {
	s, old := accepted(t)
	req := request()
	req.LocalCommID++
	s.says(mad.AttrREQ, reqTID+5, req)
	id := s.event(EventRequest).ID
	s.ok(s.e.Accept(s.now, id, &AcceptParams{QPN: 0x12}))
	s.wants(mad.AttrREP, &mad.REP{})
	s.quiet()
	s.says(mad.AttrRTU, reqTID+5, &mad.RTU{LocalCommID: req.LocalCommID, RemoteCommID: id})
	if ev := s.event(EventEstablished); ev.ID != id {
		t.Errorf("established %+v", ev)
	}
	var dreq mad.DREQ
	h := s.wants(mad.AttrDREQ, &dreq)
	if dreq.LocalCommID != old || dreq.RemoteCommID != peerID {
		t.Errorf("DREQ %+v", dreq)
	}
	s.says(mad.AttrDREP, h.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: old})
	if ev := s.event(EventDisconnected); ev.ID != old {
		t.Errorf("disconnected %+v", ev)
	}
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.passes(time.Hour) // the new connection stands
	s.quiet()
	if c := s.e.byQP[s.e.byID[id].remoteQP()]; c == nil || c.id != id {
		t.Errorf("the peer's QP leads to %+v", c)
	}

	// The program had not even answered the first request: the peer that confirms first has the QP.
	s = listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	old = s.event(EventRequest).ID
	s.says(mad.AttrREQ, reqTID+1, req)
	id = s.event(EventRequest).ID
	s.ok(s.e.Accept(s.now, id, &AcceptParams{QPN: 0x12}))
	s.wants(mad.AttrREP, &mad.REP{})
	s.says(mad.AttrRTU, reqTID+1, &mad.RTU{LocalCommID: req.LocalCommID, RemoteCommID: id})
	s.event(EventEstablished)
	s.ok(s.e.Accept(s.now, old, &AcceptParams{QPN: 0x13}))
	s.wants(mad.AttrREP, &mad.REP{})
	s.passes(time.Hour)
	for o := (Datagram{}); s.e.NextMAD(&o); {
	}
	if ev := s.event(EventUnreachable); ev.ID != old {
		t.Errorf("unreachable %+v", ev)
	}
	s.quiet()

	// One with the ID and the transaction ID of another request, and another QP, is neither.
	s, _ = accepted(t)
	req = request()
	req.LocalQPN++
	s.says(mad.AttrREQ, reqTID, req)
	var rej mad.REJ
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejDuplicateLocalCommID || rej.Message != mad.MessageREQ ||
		rej.RemoteCommID != peerID {
		t.Errorf("REJ %+v", rej)
	}
	s.quiet()
}

// A REQ from the QP of a connection that we asked for, while the program has not answered its REP.
func TestStaleREQBeforeRTU(t *testing.T) {
	s, old, _, tid := connecting(t)
	s.ok(s.e.Listen(ListenParams{Service: testService}))
	s.says(mad.AttrREP, tid, reply(old))
	s.event(EventReply)
	req := request()
	req.LocalCommID++
	s.says(mad.AttrREQ, reqTID, req)
	id := s.event(EventRequest).ID
	s.ok(s.e.Accept(s.now, id, &AcceptParams{QPN: 0x12}))
	s.wants(mad.AttrREP, &mad.REP{})
	s.says(mad.AttrRTU, reqTID, &mad.RTU{LocalCommID: req.LocalCommID, RemoteCommID: id})
	var rej mad.REJ
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejStaleConnection || rej.Message != mad.MessageREP ||
		rej.RemoteCommID != peerID {
		t.Errorf("REJ %+v", rej)
	}
	if ev := s.event(EventRejected); ev.ID != old || ev.REJ.Reason != mad.RejStaleConnection {
		t.Errorf("rejected %+v", ev)
	}
	s.event(EventEstablished)
	s.fails(s.e.Ready(s.now, old, nil), ErrNotFound)
}

// A REP from a QP that belongs to a connection.
func TestStaleREP(t *testing.T) {
	s, old, _ := connected(t)
	p := params()
	p.QPN++
	id, err := s.e.Connect(s.now, p)
	s.ok(err)
	req := s.wants(mad.AttrREQ, &mad.REQ{})
	rep := reply(id)
	rep.LocalCommID++
	s.says(mad.AttrREP, req.TID, rep)
	var rej mad.REJ
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejStaleConnection || rej.Message != mad.MessageREP ||
		rej.RemoteCommID != rep.LocalCommID {
		t.Errorf("REJ %+v", rej)
	}
	if ev := s.event(EventRejected); ev.ID != id || ev.REJ.Reason != mad.RejStaleConnection {
		t.Errorf("rejected %+v", ev)
	}
	dreq := s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.says(mad.AttrDREP, dreq.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: old})
	s.event(EventDisconnected)
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	s.gone()
}

// A REP with the ID of a connection that has ended is a REP like others: the
// peer may give its IDs again at once.
func TestRepeatedRemoteID(t *testing.T) {
	s, id, _ := connected(t)
	s.says(mad.AttrDREQ, 5, &mad.DREQ{LocalCommID: peerID, RemoteCommID: id, RemoteQPN: 0x11})
	s.event(EventDisconnected)
	s.wants(mad.AttrDREP, &mad.DREP{})
	id, err := s.e.Connect(s.now, params())
	s.ok(err)
	req := s.wants(mad.AttrREQ, &mad.REQ{})
	s.says(mad.AttrREP, req.TID, reply(id))
	s.event(EventReply)
	s.ok(s.e.Ready(s.now, id, nil))
	s.wants(mad.AttrRTU, &mad.RTU{})
	s.passes(time.Second)
	s.event(EventTimeWaitExit)
	if err := consistent(s.e); err != nil || s.e.byQP[s.e.byID[id].remoteQP()] == nil {
		t.Errorf("the old connection took the new one's QP along: %v", err)
	}
	s.ok(s.e.Release(s.now, id))
	dreq := s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.says(mad.AttrDREP, dreq.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
	s.gone()
}

// Release withdraws, rejects or disconnects, and no event follows.
func TestRelease(t *testing.T) {
	var rej mad.REJ
	s, id, _, tid := connecting(t)
	s.ok(s.e.Release(s.now, id))
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejTimeout || rej.LocalCommID != id || rej.RemoteCommID != 0 {
		t.Errorf("REJ %+v", rej)
	}
	s.says(mad.AttrREP, tid, reply(id)) // crossed it
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejInvalidCommID {
		t.Errorf("REJ %+v", rej)
	}
	s.fails(s.e.Release(s.now, id), ErrNotFound)
	s.gone()

	s, id = accepting(t)
	s.ok(s.e.Release(s.now, id))
	s.wants(mad.AttrREJ, &rej)
	s.says(mad.AttrRTU, reqTID, &mad.RTU{LocalCommID: peerID, RemoteCommID: id}) // crossed it
	if s.wants(mad.AttrREJ, &rej); rej.Reason != mad.RejConsumer || rej.RemoteCommID != peerID ||
		rej.LocalCommID != id {
		t.Errorf("REJ %+v", rej)
	}
	s.gone()

	s, id = accepted(t)
	s.ok(s.e.Release(s.now, id))
	dreq := s.wants(mad.AttrDREQ, &mad.DREQ{})
	s.fails(s.e.Disconnect(s.now, id, nil), ErrNotFound)
	s.says(mad.AttrDREP, dreq.TID, &mad.DREP{LocalCommID: peerID, RemoteCommID: id})
	s.gone()

	s, id, _ = connected(t)
	s.says(mad.AttrDREQ, 5, &mad.DREQ{LocalCommID: peerID, RemoteCommID: id, RemoteQPN: 0x11})
	s.event(EventDisconnected)
	s.wants(mad.AttrDREP, &mad.DREP{})
	s.ok(s.e.Release(s.now, id))
	s.gone()
}

func TestRefusedPath(t *testing.T) {
	s, id := accepted(t)
	var apr mad.APR
	s.says(mad.AttrLAP, 8, &mad.LAP{LocalCommID: peerID, RemoteCommID: id})
	if h := s.wants(mad.AttrAPR, &apr); h.TID != 8 || apr.Status != mad.APNotSupported || apr.LocalCommID != id ||
		apr.RemoteCommID != peerID {
		t.Errorf("APR %+v", apr)
	}
	s.says(mad.AttrLAP, 8, &mad.LAP{LocalCommID: peerID, RemoteCommID: id + 1})
	if s.wants(mad.AttrAPR, &apr); apr.Status != mad.APInvalidCommID {
		t.Errorf("APR %+v", apr)
	}
	s.quiet()

	// The alternate path of a REQ is refused, the connection is not.
	s = listening(t)
	req := request()
	req.Alternate.LocalLID = 5
	s.says(mad.AttrREQ, reqTID, req)
	s.ok(s.e.Accept(s.now, s.event(EventRequest).ID, &AcceptParams{}))
	var rep mad.REP
	if s.wants(mad.AttrREP, &rep); rep.Failover != 1 {
		t.Errorf("REP %+v", rep)
	}
}

func TestXRC(t *testing.T) {
	s := listening(t)
	req := request()
	req.Transport, req.ExtendedTransport = mad.TransportExtended, mad.ExtendedXRC
	s.says(mad.AttrREQ, reqTID, req)
	s.ok(s.e.Accept(s.now, s.event(EventRequest).ID,
		&AcceptParams{QPN: 0x33, ResponderResources: 4, InitiatorDepth: 5, FlowControl: true}))
	var rep mad.REP
	s.wants(mad.AttrREP, &rep)
	if rep.LocalEECN != 0x33 || rep.LocalQPN != 0 || !rep.SRQ || rep.ResponderResources != 4 ||
		rep.InitiatorDepth != 0 || rep.FlowControl {
		t.Errorf("REP %+v", rep)
	}
	s = newScript(t, Config{})
	p := params()
	p.Transport, p.ExtendedTransport = mad.TransportExtended, mad.ExtendedXRC
	p.SRQ, p.ResponderResources, p.InitiatorDepth, p.RetryCount, p.RNRRetryCount = true, 4, 5, 6, 7
	id, err := s.e.Connect(s.now, p)
	s.ok(err)
	h := s.wants(mad.AttrREQ, req)
	if !req.XRC() || req.SRQ || req.ResponderResources != 0 || req.InitiatorDepth != 5 || req.RetryCount != 0 ||
		req.RNRRetryCount != 0 {
		t.Errorf("REQ %+v", req)
	}
	rep.LocalCommID, rep.RemoteCommID = peerID, id
	s.says(mad.AttrREP, h.TID, &rep)
	s.event(EventReply)
	s.ok(s.e.Ready(s.now, id, nil))
	s.wants(mad.AttrRTU, &mad.RTU{})
	s.ok(s.e.Disconnect(s.now, id, nil))
	var dreq mad.DREQ
	if s.wants(mad.AttrDREQ, &dreq); dreq.RemoteQPN != 0x33 {
		t.Errorf("DREQ %+v", dreq)
	}
}

func TestInvalidParams(t *testing.T) {
	s := newScript(t, Config{MaxConnections: 1})
	for _, change := range []func(*ConnectParams){
		func(p *ConnectParams) { p.PrivateData = make([]byte, 93) },
		func(p *ConnectParams) { p.QPN = 1 << 24 },
		func(p *ConnectParams) { p.StartingPSN = 1 << 24 },
		func(p *ConnectParams) { p.PathMTU = 0 },
		func(p *ConnectParams) { p.RetryCount = 8 },
		func(p *ConnectParams) { p.RNRRetryCount = 8 },
		func(p *ConnectParams) { p.Retries = 16 },
		func(p *ConnectParams) { p.Response = 32 },
		func(p *ConnectParams) { p.AckTimeout = 32 },
		func(p *ConnectParams) { p.Transport = mad.TransportRD },
		func(p *ConnectParams) { p.Transport = mad.TransportExtended },
	} {
		p := params()
		change(p)
		_, err := s.e.Connect(s.now, p)
		s.fails(err, verbs.ErrInvalid)
	}
	_, err := s.e.Resolve(s.now, &ResolveParams{PrivateData: make([]byte, 217)})
	s.fails(err, verbs.ErrInvalid)
	s.quiet()
	_, err = s.e.Connect(s.now, params())
	s.ok(err)
	_, err = s.e.Connect(s.now, params())
	s.fails(err, verbs.ErrNoMemory)
	_, err = s.e.Resolve(s.now, &ResolveParams{})
	s.fails(err, verbs.ErrNoMemory)
	s.fails(s.e.Ready(s.now, 5, nil), ErrNotFound)

	s = listening(t)
	s.says(mad.AttrREQ, reqTID, request())
	id := s.event(EventRequest).ID
	for _, p := range []AcceptParams{{PrivateData: make([]byte, 197)}, {QPN: 1 << 24}, {StartingPSN: 1 << 24},
		{RNRRetryCount: 8}} {
		s.fails(s.e.Accept(s.now, id, &p), verbs.ErrInvalid)
	}
	s.fails(s.e.Serve(s.now, id, &ServiceParams{}), verbs.ErrState)
}
