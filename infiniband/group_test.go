// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// datagrams is an id for datagrams with its queue pair.
type datagrams struct {
	t  *testing.T
	ch *cm.EventChannel
	id *cm.ID
	pd *verbs.PD
	cq *verbs.CQ
	mr *verbs.MR
}

// newDatagrams returns an id that is bound to a device, with a queue pair that has receives.
func newDatagrams(t *testing.T, d *verbs.Device) *datagrams {
	t.Helper()
	s := &datagrams{t: t, ch: cm.NewEventChannel()}
	t.Cleanup(func() { s.ch.Close() })
	s.id = s.newID(d)
	return s
}

// joinGroup returns an id at an adapter with a queue pair that is a member of a group, and where the group's
// datagrams go.
func joinGroup(t *testing.T, f *infiniband.Fabric, adapter string, group netip.Addr) (*datagrams, *cm.UDParam) {
	t.Helper()
	s := newDatagrams(t, device(t, f, adapter))
	s.ok(s.id.Bind(netip.AddrPort{}))
	s.open(s.id)
	s.ok(s.id.JoinMulticast(group))
	e := s.event(cm.MulticastJoin)
	if e.Group != group {
		t.Errorf("joined %v", e.Group)
	}
	return s, &e.UD
}

func (s *datagrams) newID(d *verbs.Device) *cm.ID {
	s.t.Helper()
	id, err := cm.NewID(s.ch, d, cm.UDP)
	s.ok(err)
	s.t.Cleanup(func() { id.Close() })
	return id
}

func (s *datagrams) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// open gives an id its queue pair.
func (s *datagrams) open(id *cm.ID) *verbs.QP {
	s.t.Helper()
	d := id.Device()
	pd, err := d.AllocPD()
	s.ok(err)
	s.cq, err = d.CreateCQ(64, nil)
	s.ok(err)
	s.mr, err = pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
	s.ok(err)
	s.pd = pd
	_, err = id.CreateQP(pd, verbs.QPInit{SendCQ: s.cq, RecvCQ: s.cq})
	s.ok(err)
	for i := range 8 {
		s.ok(id.QP().PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{s.mr.SGE(256*i, 256)}}))
	}
	return id.QP()
}

// event waits for an event.
func (s *datagrams) event(want cm.EventType) *cm.Event {
	s.t.Helper()
	e, err := s.ch.Get(within(s.t))
	s.ok(err)
	if e.Type != want {
		s.t.Fatalf("%v: %v, want %v", e.Type, e.Err, want)
	}
	return e
}

// send sends a datagram to the destination in an event's parameters.
func (s *datagrams) send(qp *verbs.QP, ud *cm.UDParam, text string) {
	s.t.Helper()
	ah, err := s.pd.CreateAH(ud.AH)
	s.ok(err)
	s.ok(qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: []byte(text), AH: ah, RemoteQPN: ud.QPN,
		RemoteQKey: ud.QKey}))
}

// received waits for a datagram.
func (s *datagrams) received(want string) {
	s.t.Helper()
	var wc [1]verbs.WC
	for {
		_, err := s.cq.Wait(within(s.t), wc[:])
		s.ok(err)
		if wc[0].Op != verbs.WCRecv {
			continue // a completion of a send
		}
		break
	}
	for i := range 8 {
		if n := int(wc[0].ByteLen); n > 40 && string(s.mr.Bytes()[256*i+40:][:n-40]) == want {
			return
		}
	}
	s.t.Errorf("%q has not come: %v", want, wc[0].Status)
}

// A datagram service is found by its port: by the adapter's IP address, and by its GID.
func TestDatagramService(t *testing.T) {
	f := softfabric.Start(t, "fat-tree:4,2")
	ds, dc := device(t, f, "host-1"), device(t, f, "host-8")
	for _, host := range []string{"198.18.0.1", gidOf(t, ds)} {
		server, client := newDatagrams(t, ds), newDatagrams(t, dc)
		server.ok(server.id.Bind(netip.AddrPortFrom(netip.MustParseAddr(host), 0)))
		server.ok(server.id.Listen(4))
		client.ok(client.id.ResolveAddr(netip.AddrPort{}, server.id.LocalAddr(), cm.DefaultTimeout))
		client.event(cm.AddrResolved)
		client.ok(client.id.ResolveRoute(cm.DefaultTimeout))
		client.event(cm.RouteResolved)
		mine := client.open(client.id)
		client.ok(client.id.Connect(nil))
		e := server.event(cm.ConnectRequest)
		defer e.ID.Close()
		server.open(e.ID)
		server.ok(e.ID.Accept(nil))
		a := client.event(cm.Established)
		client.send(mine, &a.UD, "to "+host)
		server.received("to " + host)
	}
}

// Datagrams to a group arrive at all members, at other adapters, at the sender's, and at one that they share,
// and no longer at members that have left.
func TestMulticast(t *testing.T) {
	f := softfabric.Start(t, "fat-tree:4,2")
	group := netip.MustParseAddr("239.255.77.1")
	var all []*datagrams
	var ud *cm.UDParam
	for _, adapter := range []string{"host-1", "host-1", "host-2", "host-8"} {
		var s *datagrams
		s, ud = joinGroup(t, f, adapter, group)
		all = append(all, s)
	}
	if err := f.AwaitActive(within(t)); err != nil { // until the switches have it
		t.Fatal(err)
	}
	all[0].send(all[0].id.QP(), ud, "to all")
	for _, s := range all { // the sender is a member, too
		s.received("to all")
	}
	all[1].ok(all[1].id.LeaveMulticast(group))
	all[3].send(all[3].id.QP(), ud, "and again")
	for _, s := range []*datagrams{all[0], all[2], all[3]} {
		s.received("and again")
	}
	var wc [4]verbs.WC
	if n := all[1].cq.Poll(wc[:]); n != 0 {
		t.Errorf("who has left gets datagrams: %v", wc[:n])
	}
}
