// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"bytes"
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// member is an id that has joined a group.
type member struct {
	id *cm.ID
	pd *verbs.PD
	cq *verbs.CQ
	mr *verbs.MR
	ud cm.UDParam
}

func join(t *testing.T, dev *verbs.Device, group netip.Addr) *member {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch := cm.NewEventChannel()
	m := &member{}
	var err error
	m.id, err = cm.NewID(ch, dev, cm.UDP)
	check(err)
	t.Cleanup(func() { m.id.Close() })
	check(m.id.Bind(netip.AddrPortFrom(addressOf(t, dev), 0)))
	m.pd, err = dev.AllocPD()
	check(err)
	m.cq, err = dev.CreateCQ(16, nil)
	check(err)
	m.mr, err = m.pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
	check(err)
	qp, err := m.id.CreateQP(m.pd, verbs.QPInit{Type: verbs.UD, SendCQ: m.cq, RecvCQ: m.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	check(err)
	check(qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{m.mr.SGE(0, 4096)}}))
	check(m.id.JoinMulticast(group))
	e, err := ch.Get(ctx)
	check(err)
	if e.Type != cm.MulticastJoin {
		t.Fatalf("%v: %v", e.Type, e.Err)
	}
	m.ud = e.UD
	return m
}

// Two ids join a group, and one gets the datagrams that the other sends to it. One leaves, and joins again.
func TestMulticast(t *testing.T) {
	a, b := named(t)
	one, two := open(t, a), open(t, b)
	if one.Query().Caps&verbs.CapUDMulticast == 0 {
		t.Skip("the device has no multicast")
	}
	group := loopback.NextGroup()
	from, to := join(t, one, group), join(t, two, group)
	if err := to.id.LeaveMulticast(group); err != nil {
		t.Fatal(err)
	}
	if err := to.id.Close(); err != nil {
		t.Fatal(err)
	}
	to = join(t, two, group)
	if from.ud.QPN != 0xffffff || from.ud.QKey != cm.UDPQKey || from.ud.AH.DGID.Addr() != group {
		t.Errorf("%+v", from.ud)
	}
	ah, err := from.pd.CreateAH(from.ud.AH)
	if err != nil {
		t.Fatal(err)
	}
	defer ah.Close()
	from.mr.Do(func(b []byte) { copy(b[2048:], "to all") })
	if err := from.id.QP().PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{from.mr.SGE(2048, 6)}, AH: ah,
		RemoteQPN: from.ud.QPN, RemoteQKey: from.ud.QKey}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wcs [1]verbs.WC
	if _, err := to.cq.Wait(ctx, wcs[:]); err != nil {
		t.Fatal(err)
	}
	to.mr.Do(func(b []byte) {
		if wcs[0].Status != verbs.StatusSuccess || wcs[0].ByteLen != 46 || !bytes.Equal(b[40:46], []byte("to all")) {
			t.Errorf("%v, %d bytes: %q", wcs[0].Status, wcs[0].ByteLen, b[40:46])
		}
	})
}
