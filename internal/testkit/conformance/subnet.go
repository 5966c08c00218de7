// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wiremad "github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// JoinSubnet asks the subnet administrator to make the first port of a device a member of a group, and returns
// the group's LID (IBTA volume 1, section 15.2.5.17). The switches may not have it yet.
func JoinSubnet(t testing.TB, dev *verbs.Device, g verbs.GID) (lid uint16) {
	t.Helper()
	agent, err := umad.Open(dev, 1, ib.QP1, umad.Spec{Class: sa.Class, Version: sa.ClassVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	port, err := dev.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	gids, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	q := sa.MCMemberRecord{MGID: g, PortGID: gids[0].GID, QKey: 0x11111111, PKey: ib.DefaultPKey, Join: sa.FullMember}
	h := sa.NewHeader(wiremad.MethodSet, sa.AttrMCMemberRecord, 0,
		sa.MemberMGID|sa.MemberPortGID|sa.MemberQKey|sa.MemberPKey|sa.MemberTClass|
			sa.MemberSL|sa.MemberFlowLabel|sa.MemberJoinState)
	b := q.Append(h.Append(make([]byte, 0, wiremad.Size)))[:wiremad.Size]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := agent.Send(umad.Path{AH: verbs.AHAttr{DLID: port.SMLID, SL: port.SL}}, b); err != nil {
		t.Fatal(err)
	}
	if _, _, err := agent.Recv(ctx, b); err != nil {
		t.Fatal(err)
	}
	if h.Decode(b); h.Status != wiremad.StatusOK {
		t.Fatalf("joining a group: %s", sa.StatusText(h.Status))
	}
	q.Decode(b[sa.HeaderLen:])
	return q.MLID
}
