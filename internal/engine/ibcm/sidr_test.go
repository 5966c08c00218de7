// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

func uint32QPN(i int) ib.QPN { return ib.QPN(0x100 + i) }

func serviceRequest() *mad.SIDRREQ {
	m := &mad.SIDRREQ{RequestID: peerID, PKey: ib.DefaultPKey, ServiceID: testService}
	copy(m.Private[:], "who")
	return m
}

func TestResolve(t *testing.T) {
	s := newScript(t, Config{})
	id, err := s.e.Resolve(s.now, &ResolveParams{To: peerAddr, Service: testService, PrivateData: []byte("who")})
	s.ok(err)
	var req mad.SIDRREQ
	h := s.wants(mad.AttrSIDRREQ, &req)
	want := *serviceRequest()
	want.RequestID = id
	if req != want || mad.CommID(h.TID) != id {
		t.Errorf("SIDR_REQ %+v", req)
	}
	rep := &mad.SIDRREP{RequestID: id, QPN: 0x22, QKey: 0x1234567, ServiceID: testService}
	rep.Private[0] = 4
	s.says(mad.AttrSIDRREP, h.TID, rep)
	if ev := s.event(EventService); *ev.SIDRREP != *rep || ev.ID != id || ev.Private[0] != 4 || !ev.Kind.Final() {
		t.Errorf("service %+v", ev)
	}
	s.says(mad.AttrSIDRREP, h.TID, rep)
	s.gone()

	id, err = s.e.Resolve(s.now, &ResolveParams{To: peerAddr, Service: testService})
	s.ok(err)
	s.wants(mad.AttrSIDRREQ, &req)
	s.ok(s.e.Release(s.now, id))
	s.gone()
}

func TestServe(t *testing.T) {
	s := listening(t)
	s.says(mad.AttrSIDRREQ, 7, serviceRequest())
	ev := s.event(EventServiceRequest)
	if *ev.SIDRREQ != *serviceRequest() || ev.Listener != testService || ev.From != peerAddr ||
		string(ev.Private[:3]) != "who" {
		t.Errorf("service request %+v", ev)
	}
	s.says(mad.AttrSIDRREQ, 7, serviceRequest())
	s.quiet() // the program thinks
	s.fails(s.e.Serve(s.now, ev.ID, &ServiceParams{PrivateData: make([]byte, 137)}), verbs.ErrInvalid)
	s.fails(s.e.Serve(s.now, ev.ID, &ServiceParams{Info: make([]byte, 73)}), verbs.ErrInvalid)
	s.fails(s.e.Accept(s.now, ev.ID, &AcceptParams{}), verbs.ErrState)
	s.ok(s.e.Serve(s.now, ev.ID, &ServiceParams{QPN: 0x11, QKey: 9, PrivateData: []byte("me")}))
	for range 2 { // repetitions get the same answer, and no event
		var rep mad.SIDRREP
		if h := s.wants(mad.AttrSIDRREP, &rep); h.TID != 7 || rep.RequestID != peerID || rep.QPN != 0x11 ||
			rep.QKey != 9 || rep.ServiceID != testService || string(rep.Private[:2]) != "me" {
			t.Errorf("SIDR_REP %+v", rep)
		}
		s.says(mad.AttrSIDRREQ, 7, serviceRequest())
	}
	s.wants(mad.AttrSIDRREP, &mad.SIDRREP{})
	s.fails(s.e.Serve(s.now, ev.ID, &ServiceParams{}), ErrNotFound)
	// The same ID in another transaction is another request.
	s.says(mad.AttrSIDRREQ, 8, serviceRequest())
	s.says(mad.AttrSIDRREQ, 9, serviceRequest())
	for range 2 {
		s.ok(s.e.Release(s.now, s.event(EventServiceRequest).ID))
		var rep mad.SIDRREP
		if s.wants(mad.AttrSIDRREP, &rep); rep.Status != mad.SIDRReject {
			t.Errorf("SIDR_REP %+v", rep)
		}
	}
	s.gone()
}

func TestServeRefused(t *testing.T) {
	s := newScript(t, Config{})
	s.ok(s.e.Listen(ListenParams{Service: testService, Backlog: 1}))
	var rep mad.SIDRREP
	req := serviceRequest()
	req.ServiceID++
	s.says(mad.AttrSIDRREQ, 7, req)
	if s.wants(mad.AttrSIDRREP, &rep); rep.Status != mad.SIDRUnsupported || rep.ServiceID != req.ServiceID {
		t.Errorf("SIDR_REP %+v", rep)
	}
	s.says(mad.AttrSIDRREQ, 7, serviceRequest())
	s.event(EventServiceRequest)
	req = serviceRequest()
	req.RequestID++
	s.says(mad.AttrSIDRREQ, 8, req)
	s.quiet() // no room: it comes again
}

// TestServeBesideHalfOpen: a request for a service is no half-open connection. It finds a place however many half-open
// connections its source has.
func TestServeBesideHalfOpen(t *testing.T) {
	s := listening(t)
	for i := range minHalfOpen {
		req := request()
		req.LocalCommID, req.LocalQPN = peerID+mad.CommID(i), ib.QPN(0x1000+i)
		s.says(mad.AttrREQ, reqTID+uint64(i), req)
		var ev Event
		if !s.e.NextEvent(&ev) {
			break // no more of one source
		}
		s.ok(s.e.Accept(s.now, ev.ID, &AcceptParams{QPN: uint32QPN(i)}))
		s.wants(mad.AttrREP, &mad.REP{})
	}
	req := request()
	req.LocalCommID, req.LocalQPN = peerID+minHalfOpen, 0x9000
	s.says(mad.AttrREQ, reqTID+minHalfOpen, req)
	s.quiet() // there is no place for it
	m := serviceRequest()
	m.RequestID = 0x7777
	s.says(mad.AttrSIDRREQ, 7, m)
	s.event(EventServiceRequest)
}
