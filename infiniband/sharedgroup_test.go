// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// asker asks the subnet administrator, by datagrams of its own.
type asker struct {
	t     testing.TB
	d     *verbs.Device
	agent *umad.Agent
	last  uint32
}

func newAsker(t testing.TB, d *verbs.Device) *asker {
	t.Helper()
	g, err := umad.Open(d, 1, ib.QP1, umad.Spec{Class: sa.Class, Version: sa.ClassVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return &asker{t: t, d: d, agent: g}
}

// send sends a request for a membership of the asker's port, with the last id, and returns that.
func (a *asker) send(method mad.Method, mask uint64, r sa.MCMemberRecord) uint64 {
	a.t.Helper()
	p, err := a.d.Port(1)
	if err != nil {
		a.t.Fatal(err)
	}
	gids, err := a.d.GIDs(1)
	if err != nil {
		a.t.Fatal(err)
	}
	r.PortGID = gids[0].GID
	h := sa.NewHeader(method, sa.AttrMCMemberRecord, a.agent.Transaction(a.last), mask|sa.MemberPortGID)
	h.RMPP.Version = sa.RMPPVersion
	if method == mad.MethodGet {
		h.SMKey = 1 // OpenSM answers only requests with its key
	}
	b := make([]byte, umad.Len)
	r.Append(h.Append(b[:0]))
	if err := a.agent.Send(umad.Path{AH: verbs.AHAttr{DLID: p.SMLID, SL: p.SL}}, b); err != nil {
		a.t.Fatal(err)
	}
	return h.TID
}

// answer waits for the answer to a request until ctx ends.
func (a *asker) answer(ctx context.Context, tid uint64) (h sa.Header, r sa.MCMemberRecord, err error) {
	for b := make([]byte, umad.Len); h.TID != tid; {
		if _, _, err := a.agent.Recv(ctx, b); err != nil {
			return h, r, err
		}
		h.Decode(b)
		r.Decode(b[sa.HeaderLen:])
	}
	return h, r, nil
}

// ask returns the administrator's answer to a request. While nothing comes it repeats the request, with the same
// id: a manager that is about to take the subnet over does not answer.
func (a *asker) ask(method mad.Method, mask uint64, r sa.MCMemberRecord) (mad.Status, sa.MCMemberRecord) {
	a.t.Helper()
	a.last++
	for all := within(a.t); ; {
		once, done := context.WithTimeout(all, 2*time.Second)
		h, got, err := a.answer(once, a.send(method, mask, r))
		done()
		if err == nil {
			return h.Status, got
		}
		if all.Err() != nil {
			a.t.Fatal(err)
		}
	}
}

// The components that requests to leave a group, and to create one, need beside the port.
const leaves = sa.MemberMGID | sa.MemberJoinState
const creates = leaves | sa.MemberQKey | sa.MemberPKey | sa.MemberTClass | sa.MemberSL | sa.MemberFlowLabel

func groupRecord(num byte, j sa.JoinState) sa.MCMemberRecord {
	return sa.MCMemberRecord{MGID: ib.GID{0: 0xff, 1: 0x12, 2: 0x50, 3: 0x1b, 14: 0x77, 15: num}, QKey: 0x1234,
		PKey: ib.DefaultPKey, Join: j}
}

// join makes the port a member of a group.
func (a *asker) join(num byte, j sa.JoinState) sa.MCMemberRecord {
	a.t.Helper()
	status, r := a.ask(mad.MethodSet, creates, groupRecord(num, j))
	if status != mad.StatusOK {
		a.t.Fatalf("joining as %#x: %s", j, sa.StatusText(status))
	}
	return r
}

// leave asks to end a membership.
func (a *asker) leave(num byte, j sa.JoinState) (mad.Status, sa.MCMemberRecord) {
	a.t.Helper()
	return a.ask(sa.MethodDelete, leaves, groupRecord(num, j))
}

// left waits until the device has left a group: its connection manager does that by itself. When this is
// answered, it has, or need not any more.
func (a *asker) left(group *cm.UDParam) {
	a.t.Helper()
	status, _ := a.ask(sa.MethodDelete, leaves, sa.MCMemberRecord{MGID: group.AH.DGID, Join: sa.FullMember})
	if status != mad.StatusOK && status != sa.StatusInvalid {
		a.t.Fatalf("leaving: %s", sa.StatusText(status))
	}
}

// is compares the administrator's record of the port's membership.
func (a *asker) is(num byte, want sa.JoinState) {
	a.t.Helper()
	a.isMember(groupRecord(num, 0).MGID, want)
}

func (a *asker) isMember(group ib.GID, want sa.JoinState) {
	a.t.Helper()
	if got := a.member(group); got != want {
		a.t.Errorf("the port is a member as %#x, want %#x", got, want)
	}
}

// member returns the port's state of membership by the administrator.
func (a *asker) member(group ib.GID) sa.JoinState {
	a.t.Helper()
	status, r := a.ask(mad.MethodGet, sa.MemberMGID, sa.MCMemberRecord{MGID: group})
	if status != mad.StatusOK {
		return 0
	}
	return r.Join
}

// members returns to how many ports the only switch of a fabric sends packets for a group.
func members(f *infiniband.Fabric, mlid uint16) int { return f.Running().GroupPorts("switch-1", mlid) }

// A program that leaves a group does not take the port out of it while another program there is a member.
func TestLeaveSharedGroup(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	group := netip.MustParseAddr("239.255.77.3")
	stays, ud := joinGroup(t, f, "host-1", group)
	goes, _ := joinGroup(t, f, "host-1", group)
	far, _ := joinGroup(t, f, "host-3", group)
	goes.ok(goes.id.LeaveMulticast(group))
	newAsker(t, goes.id.Device()).left(ud)
	softfabric.AwaitActive(t, f) // the switch has the administrator's new table
	far.send(far.id.QP(), ud, "to who stays")
	stays.received("to who stays")
	far.received("to who stays")
	stays.ok(stays.id.LeaveMulticast(group))
	waitFor(t, "the port leaves with the last of its programs", func() bool { return members(f, ud.AH.DLID) == 1 })
}

// The administrator gets requests to leave only for join states that no other program at the port has.
func TestLeaveSharedGroupInPart(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	a, b, far := newAsker(t, device(t, f, "host-1")), newAsker(t, device(t, f, "host-1")),
		newAsker(t, device(t, f, "host-2"))
	far.join(1, sa.FullMember) // so that the group lasts
	a.join(1, sa.FullMember)
	if r := b.join(1, sa.FullMember|sa.SendOnlyNonMember); r.Join != sa.FullMember|sa.SendOnlyNonMember {
		t.Errorf("joined as %#x", r.Join)
	}
	a.is(1, sa.FullMember|sa.SendOnlyNonMember)
	if s, _ := a.leave(1, sa.FullMember|sa.SendOnlyNonMember); s != sa.StatusInvalid {
		t.Errorf("leaving as what the other is: %s", sa.StatusText(s))
	}
	if s, r := b.leave(1, sa.FullMember|sa.SendOnlyNonMember); s != mad.StatusOK || r.Join != sa.FullMember {
		t.Errorf("leaving: %s, and the port is %#x", sa.StatusText(s), r.Join)
	}
	a.is(1, sa.FullMember)
	if s, _ := b.leave(1, sa.FullMember); s != sa.StatusInvalid {
		t.Errorf("leaving again: %s", sa.StatusText(s))
	}
	b.join(1, sa.FullMember)
	if s, r := a.leave(1, sa.FullMember); s != mad.StatusOK || r.Join != sa.FullMember {
		t.Errorf("leaving as the first: %s, and the port is %#x", sa.StatusText(s), r.Join)
	}
	a.is(1, sa.FullMember)
	if s, r := b.leave(1, sa.FullMember); s != mad.StatusOK || r.Join != 0 {
		t.Errorf("leaving as the last: %s, and the port is %#x", sa.StatusText(s), r.Join)
	}
	a.is(1, 0)
	if s, _ := b.leave(1, sa.FullMember); s != sa.StatusInvalid {
		t.Errorf("leaving what nobody is: %s", sa.StatusText(s))
	}
}

// A program that ends leaves its groups, also groups that were made for it, even if the request is lost at first.
// It leaves no group that another program at the port is in.
func TestEndedMember(t *testing.T) {
	t.Parallel()
	f := softfabric.Start(t, "star:3")
	ends := device(t, f, "host-1")
	a, b, far := newAsker(t, ends), newAsker(t, device(t, f, "host-1")), newAsker(t, device(t, f, "host-2"))
	var mlids [3]uint16
	for num := range mlids {
		mlids[num] = far.join(byte(num), sa.FullMember).MLID
		a.join(byte(num), sa.FullMember)
	}
	b.join(1, sa.FullMember)
	chosen := groupRecord(0, sa.FullMember)
	chosen.MGID = ib.GID{}
	status, made := a.ask(mad.MethodSet, creates&^sa.MemberMGID, chosen)
	if status != mad.StatusOK || made.MGID == (ib.GID{}) {
		t.Fatalf("a group with any GID: %s, %v", sa.StatusText(status), made.MGID)
	}
	waitFor(t, "all have joined", func() bool { return members(f, mlids[2]) == 2 && members(f, made.MLID) == 1 })
	cable := infiniband.End{Node: "host-1", Port: 1}
	lose := func(share float64) {
		if err := f.SetErrorRate(cable, share); err != nil {
			t.Fatal(err)
		}
	}
	lose(1)
	if err := ends.Close(); err != nil {
		t.Fatal(err)
	}
	lose(0)
	waitFor(t, "the port leaves", func() bool {
		return members(f, mlids[0]) == 1 && members(f, mlids[2]) == 1 && members(f, made.MLID) == 0
	})
	b.is(1, sa.FullMember)
	if n := members(f, mlids[1]); n != 2 {
		t.Errorf("%d ports in the other program's group, want 2", n)
	}
}

// A program that leaves a group and joins it again at once is a member, and a program that gives a join up is
// none, in any order of the administrator's answers.
func TestJoinAfterLeave(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	group := netip.MustParseAddr("239.255.77.5")
	_, ud := joinGroup(t, f, "host-2", group) // so that the group lasts
	s, _ := joinGroup(t, f, "host-1", group)
	a := newAsker(t, s.id.Device())
	for range 100 {
		s.ok(s.id.LeaveMulticast(group))
		s.ok(s.id.JoinMulticast(group))
		s.event(cm.MulticastJoin)
		a.isMember(ud.AH.DGID, sa.FullMember)
	}
	for range 20 {
		s.ok(s.id.LeaveMulticast(group))
		s.ok(s.id.JoinMulticast(group))
		s.ok(s.id.LeaveMulticast(group))
		waitFor(t, "the port has left", func() bool { return members(f, ud.AH.DLID) == 1 })
		s.ok(s.id.JoinMulticast(group))
		s.event(cm.MulticastJoin)
	}
}
