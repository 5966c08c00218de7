// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A datagram service is found by its port, and answers look-ups.
func TestDatagramService(t *testing.T) {
	datagramService(t, open(t), open(t))
}

func datagramService(t *testing.T, from, to *verbs.Device) {
	client, server := sidesOf(t, from, to, cm.UDP)
	mine := client.addQP(client.id)
	p := &cm.ConnParam{PrivateData: []byte("who is there")}
	ok(t, client.id.Connect(p))
	e := server.event(cm.ConnectRequest)
	defer e.ID.Close()
	holds(t, "request", e.UD.PrivateData, "who is there", cm.MaxConnectDataUD)
	if e.ID.PeerAddr() != client.id.LocalAddr() {
		t.Errorf("request from %v, want %v", e.ID.PeerAddr(), client.id.LocalAddr())
	}
	theirs := server.addQP(e.ID)
	p.PrivateData = []byte("it is me")
	ok(t, e.ID.Accept(p))
	a := client.event(cm.Established)
	holds(t, "answer", a.UD.PrivateData, "it is me", cm.MaxAcceptDataUD)
	if a.UD.QPN != theirs.Num() || a.UD.QKey != cm.UDPQKey {
		t.Errorf("queue pair %d with key %#x, want %d with %#x", a.UD.QPN, a.UD.QKey, theirs.Num(), cm.UDPQKey)
	}
	transfer(t, client, mine, server, theirs, &a.UD)
	ok(t, client.id.Disconnect()) // means nothing here
}

// transfer sends a datagram.
func transfer(t *testing.T, from *side, sender *verbs.QP, to *side, receiver *verbs.QP, ud *cm.UDParam) {
	t.Helper()
	into, err := to.pd.RegMR(make([]byte, 100), verbs.LocalWrite)
	ok(t, err)
	ok(t, receiver.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{into.SGE(0, 100)}}))
	ah, err := from.pd.CreateAH(ud.AH)
	ok(t, err)
	defer ah.Close()
	ok(t, sender.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("hello"), AH: ah, RemoteQPN: ud.QPN,
		RemoteQKey: ud.QKey}))
	var wc [1]verbs.WC
	if _, err := to.cq.Wait(within(t), wc[:]); err != nil {
		t.Fatal(err)
	}
	if got := string(into.Bytes()[40:wc[0].ByteLen]); wc[0].Status != verbs.StatusSuccess || got != "hello" {
		t.Errorf("%v, %q", wc[0].Status, got)
	}
}

func TestDatagramServiceRefused(t *testing.T) {
	datagramServiceRefused(t, open(t), open(t))
}

func datagramServiceRefused(t *testing.T, from, to *verbs.Device) {
	client, server := sidesOf(t, from, to, cm.UDP)
	client.addQP(client.id)
	ok(t, client.id.Connect(nil))
	ok(t, server.event(cm.ConnectRequest).ID.Reject([]byte("not now")))
	e := client.event(cm.Unreachable)
	holds(t, "answer", e.UD.PrivateData, "not now", cm.MaxAcceptDataUD)
	var why *cm.RejectError
	if !errors.As(e.Err, &why) || why.Reason != cm.ReasonConsumer {
		t.Error(e.Err)
	}

	nobody := newSide(t, client.id.Device(), cm.UDP)
	nobody.addQP(nobody.id)
	nobody.resolve(netip.AddrPortFrom(server.id.LocalAddr().Addr(), 1))
	ok(t, nobody.id.Connect(nil))
	if e := nobody.event(cm.Unreachable); !errors.As(e.Err, &why) || why.Reason != cm.ReasonInvalidService {
		t.Error(e.Err)
	}
}

func TestMulticast(t *testing.T) {
	multicast(t, open(t), open(t), loopback.NextGroup())
}

// multicast has two devices join a group, and one send to it.
func multicast(t *testing.T, first, second *verbs.Device, group netip.Addr) {
	t.Helper()
	a, b := newSide(t, first, cm.UDP), newSide(t, second, cm.UDP)
	var ud cm.UDParam
	for _, s := range []*side{a, b} {
		ok(t, s.id.Bind(netip.AddrPort{}))
		fails(t, s.id.JoinMulticast(netip.MustParseAddr("10.0.0.1")), verbs.ErrInvalid, "10.0.0.1")
		fails(t, s.id.JoinMulticast(netip.MustParseAddr("ff15::1")), cm.ErrNoAddr, "ff15::1")
		s.addQP(s.id)
		ok(t, s.id.JoinMulticast(group))
		e, err := s.ch.Get(within(t))
		ok(t, err)
		if e.Type == cm.MulticastError {
			t.Skipf("no multicast here: %v", e.Err)
		}
		if e.Type != cm.MulticastJoin || e.Group != group {
			t.Fatalf("%v of %v", e.Type, e.Group)
		}
		ud = e.UD
	}
	if ud.QPN != 0xffffff || ud.QKey != cm.UDPQKey || ud.AH.DGID.Addr() != group {
		t.Errorf("%+v", ud)
	}
	fails(t, a.id.JoinMulticast(group), verbs.ErrBusy)
	transfer(t, a, a.id.QP(), b, b.id.QP(), &ud)

	sender := newSide(t, first, cm.UDP)
	ok(t, sender.id.Bind(netip.AddrPort{}))
	sender.addQP(sender.id)
	ok(t, sender.id.JoinMulticastSendOnly(group))
	ud = sender.event(cm.MulticastJoin).UD
	transfer(t, sender, sender.id.QP(), b, b.id.QP(), &ud)
	fails(t, sender.id.QP().DetachMulticast(ud.AH.DGID, 0), verbs.ErrInvalid, "not attached")
	ok(t, sender.id.LeaveMulticast(group))
	ok(t, b.id.LeaveMulticast(group))
	fails(t, b.id.LeaveMulticast(group), verbs.ErrNotFound)
	ok(t, a.id.Close()) // leaves it
}
