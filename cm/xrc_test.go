// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// xrcSides returns a listener for XRC initiators and an id that knows the way to it.
func xrcSides(t *testing.T) (client, server *side) {
	t.Helper()
	server = newSide(t, open(t), cm.IB)
	ok(t, server.id.SetQPType(verbs.XRCTgt))
	ok(t, server.id.Bind(netip.AddrPort{}))
	ok(t, server.id.Listen(0))
	client = newSide(t, open(t), cm.IB)
	client.resolve(server.id.LocalAddr())
	return client, server
}

// target is a receiver by XRC.
type target struct {
	xrcd *verbs.XRCD
	srq  *verbs.SRQ
	mr   *verbs.MR
}

func newTarget(t *testing.T, s *side) *target {
	t.Helper()
	x, err := s.id.Device().OpenXRCD()
	ok(t, err)
	srq, err := s.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1, XRCD: x, CQ: s.cq})
	ok(t, err)
	mr, err := s.pd.RegMR(make([]byte, 100), verbs.LocalWrite|verbs.RemoteRead)
	ok(t, err)
	ok(t, srq.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{mr.SGE(0, 100)}}))
	return &target{x, srq, mr}
}

// param tells a peer the number of the shared receive queue.
func (g *target) param() *cm.ConnParam {
	p := cm.DefaultConnParam
	p.PrivateData = binary.BigEndian.AppendUint32(nil, g.srq.Num())
	return &p
}

// exchange sends a message to the target and reads it back from there.
func (g *target) exchange(t *testing.T, client, server *side, qp *verbs.QP, private []byte) {
	t.Helper()
	done := func(cq *verbs.CQ) verbs.WC {
		t.Helper()
		var wc [1]verbs.WC
		if _, err := cq.Wait(within(t), wc[:]); err != nil {
			t.Fatal(err)
		}
		if wc[0].Status != verbs.StatusSuccess {
			t.Fatalf("%+v", wc[0])
		}
		return wc[0]
	}
	srqn := binary.BigEndian.Uint32(private)
	ok(t, qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte("hello"), SRQN: srqn, Flags: verbs.Signaled}))
	if wc := done(server.cq); wc.ID != 7 || string(g.mr.Bytes()[:wc.ByteLen]) != "hello" {
		t.Errorf("received %+v, %q", wc, g.mr.Bytes()[:wc.ByteLen])
	}
	done(client.cq)
	into, err := client.pd.RegMR(make([]byte, 5), verbs.LocalWrite)
	ok(t, err)
	ok(t,
		qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{into.SGE(0, 5)}, Remote: g.mr.Remote(), SRQN: srqn,
			Flags: verbs.Signaled}))
	done(client.cq)
	if !bytes.Equal(into.Bytes(), []byte("hello")) {
		t.Errorf("read %q", into.Bytes())
	}
}

// An XRC initiator and a target that the managers look after.
func TestXRC(t *testing.T) {
	client, server := xrcSides(t)
	ini, err := client.id.CreateQP(client.pd, verbs.QPInit{Type: verbs.XRCIni, SendCQ: client.cq})
	ok(t, err)
	ok(t, client.id.Connect(nil))
	e := server.event(cm.ConnectRequest)
	in := e.ID
	defer in.Close()
	if e.Conn.QPNum != ini.Num() || e.Conn.SRQ || e.Conn.InitiatorDepth != 0 || e.Conn.ResponderResources == 0 {
		t.Errorf("request %+v", e.Conn)
	}
	g := newTarget(t, server)
	tgt, err := in.CreateTargetQP(g.xrcd, verbs.QPInit{})
	ok(t, err)
	ok(t, in.Accept(g.param()))
	e = client.event(cm.Established)
	if e.Conn.QPNum != tgt.Num() || !e.Conn.SRQ || e.Conn.ResponderResources != 0 || e.Conn.InitiatorDepth == 0 {
		t.Errorf("reply %+v, want queue pair %d", e.Conn, tgt.Num())
	}
	server.event(cm.Established)
	if ini.State() != verbs.StateRTS || tgt.State() != verbs.StateRTS {
		t.Errorf("the initiator is in %v, the target in %v", ini.State(), tgt.State())
	}
	g.exchange(t, client, server, ini, e.Conn.PrivateData)
	ok(t, client.id.Disconnect())
	server.event(cm.Disconnected)
	client.event(cm.Disconnected)
	if ini.State() != verbs.StateError || tgt.State() != verbs.StateError {
		t.Errorf("the initiator is in %v, the target in %v", ini.State(), tgt.State())
	}
}

// The same with queue pairs that the programs own: InitQPAttr has the attributes that each needs and no more.
func TestXRCOwnQPs(t *testing.T) {
	client, server := xrcSides(t)
	raise := func(id *cm.ID, qp *verbs.QP, states ...verbs.QPState) {
		t.Helper()
		for _, s := range states {
			a, mask, err := id.InitQPAttr(s)
			ok(t, err)
			ok(t, qp.Modify(a, mask))
		}
	}
	ini, err := client.pd.CreateQP(verbs.QPInit{Type: verbs.XRCIni, SendCQ: client.cq})
	ok(t, err)
	defer ini.Close()
	ok(t, client.id.SetQPType(verbs.XRCIni))
	p := cm.DefaultConnParam
	p.QPNum = ini.Num()
	ok(t, client.id.Connect(&p))
	in := server.event(cm.ConnectRequest).ID
	defer in.Close()
	g := newTarget(t, server)
	tgt, err := g.xrcd.CreateTargetQP(verbs.QPInit{})
	ok(t, err)
	defer tgt.Close()
	raise(in, tgt, verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
	answer := g.param()
	answer.QPNum = tgt.Num()
	ok(t, in.Accept(answer))
	e := client.event(cm.ConnectResponse)
	if e.Conn.QPNum != tgt.Num() {
		t.Errorf("reply of queue pair %d, want %d", e.Conn.QPNum, tgt.Num())
	}
	raise(client.id, ini, verbs.StateInit, verbs.StateRTR, verbs.StateRTS)
	ok(t, client.id.Establish())
	server.event(cm.Established)
	g.exchange(t, client, server, ini, e.Conn.PrivateData)
}

// A listener rejects requests for queue pairs that its program does not serve (IBTA 12.6.7.2).
func TestQPTypeRejected(t *testing.T) {
	a, b := open(t), open(t)
	for _, c := range []struct {
		listener, asked verbs.QPType // 0: not said
		served          bool
	}{
		{0, verbs.RC, true}, {0, verbs.UC, true}, {0, verbs.XRCIni, false},
		{verbs.RC, 0, true}, {verbs.RC, verbs.UC, false}, {verbs.RC, verbs.XRCIni, false},
		{verbs.UC, verbs.RC, false}, {verbs.UC, verbs.UC, true}, {verbs.UC, verbs.XRCIni, false},
		{verbs.XRCTgt, 0, false}, {verbs.XRCTgt, verbs.UC, false}, {verbs.XRCTgt, verbs.XRCIni, true},
	} {
		server := newSide(t, b, cm.IB)
		if c.listener != 0 {
			ok(t, server.id.SetQPType(c.listener))
		}
		ok(t, server.id.Bind(netip.AddrPort{}))
		ok(t, server.id.Listen(0))
		client := newSide(t, a, cm.IB)
		client.resolve(server.id.LocalAddr())
		if c.asked != 0 {
			ok(t, client.id.SetQPType(c.asked))
		}
		p := cm.DefaultConnParam
		p.QPNum = 0x1234
		ok(t, client.id.Connect(&p))
		if c.served {
			ok(t, server.event(cm.ConnectRequest).ID.Close())
			client.event(cm.Rejected)
			continue
		}
		var r *cm.RejectError
		if e := client.event(cm.Rejected); !errors.As(e.Err, &r) || r.Reason != cm.ReasonInvalidTransport {
			t.Errorf("a listener of %v is asked for %v: %v", c.listener, c.asked, e.Err)
		}
	}
}

// Queue pairs and types that do not fit the id.
func TestQPTypeErrors(t *testing.T) {
	dev := open(t)
	s := newSide(t, dev, cm.IB)
	xrcd, err := dev.OpenXRCD()
	ok(t, err)
	for ps, types := range map[cm.PortSpace][]verbs.QPType{
		cm.TCP: {0, verbs.UC, verbs.UD, verbs.XRCIni, verbs.XRCTgt, 99}, cm.UDP: {verbs.RC, verbs.XRCTgt},
		cm.IB: {verbs.UD},
	} {
		id, err := cm.NewID(s.ch, dev, ps)
		ok(t, err)
		for _, typ := range types {
			fails(t, id.SetQPType(typ), verbs.ErrInvalid, "port space "+ps.String())
		}
		ok(t, id.Close())
		fails(t, id.SetQPType(verbs.RC), verbs.ErrClosed)
	}
	create := func(id *cm.ID, typ verbs.QPType) error {
		init := verbs.QPInit{Type: typ, SendCQ: s.cq, RecvCQ: s.cq}
		var err error
		if typ == verbs.XRCTgt {
			_, err = id.CreateTargetQP(xrcd, verbs.QPInit{})
		} else {
			if typ == verbs.XRCIni {
				init.RecvCQ = nil
			}
			_, err = id.CreateQP(s.pd, init)
		}
		return err
	}
	for _, typ := range []verbs.QPType{verbs.UC, verbs.UD, verbs.XRCIni} {
		fails(t, create(newSide(t, dev, cm.TCP).id, typ), verbs.ErrInvalid, "port space TCP")
	}
	fails(t, create(s.id, verbs.XRCTgt), verbs.ErrInvalid, "for requests")
	_, err = s.id.CreateTargetQP(nil, verbs.QPInit{})
	fails(t, err, verbs.ErrInvalid, "XRC domain")
	ok(t, s.id.SetQPType(verbs.XRCIni))
	fails(t, create(s.id, verbs.RC), verbs.ErrInvalid, "connects type")
	fails(t, s.id.Listen(0), verbs.ErrInvalid, "XRC")
	ok(t, create(s.id, verbs.XRCIni))
	fails(t, s.id.SetQPType(verbs.RC), verbs.ErrInvalid, "has a queue pair")

	client, server := xrcSides(t)
	fails(t, server.id.SetQPType(verbs.RC), verbs.ErrState)
	ok(t, client.id.SetQPType(verbs.XRCTgt))
	fails(t, client.id.Connect(nil), verbs.ErrInvalid, "XRC target")
	ok(t, client.id.SetQPType(verbs.XRCIni))
	p := cm.DefaultConnParam
	p.QPNum = 5
	ok(t, client.id.Connect(&p))
	in := server.event(cm.ConnectRequest).ID
	_, err = in.CreateQP(server.pd, verbs.QPInit{Type: verbs.XRCIni, SendCQ: server.cq})
	fails(t, err, verbs.ErrInvalid)
	ok(t, in.Close())
	client.event(cm.Rejected)

	client, server = sides(t, cm.IB)
	client.addQP(client.id)
	ok(t, client.id.Connect(nil))
	in = server.event(cm.ConnectRequest).ID
	_, err = in.CreateQP(server.pd, verbs.QPInit{Type: verbs.XRCIni, SendCQ: server.cq})
	fails(t, err, verbs.ErrInvalid, "SetQPType")
	ok(t, in.Close())
	client.event(cm.Rejected)

	other := newSide(t, openIWARP(t), cm.IB)
	for _, typ := range []verbs.QPType{verbs.UC, verbs.XRCIni, verbs.XRCTgt} {
		fails(t, other.id.SetQPType(typ), verbs.ErrNotSupported)
	}
	ok(t, other.id.SetQPType(verbs.RC))
	other = newSide(t, openIWARP(t), cm.TCP)
	_, err = other.id.CreateQP(other.pd, verbs.QPInit{Type: verbs.XRCIni, SendCQ: other.cq})
	fails(t, err, verbs.ErrNotSupported)
}
