// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// member makes a join or leave of a group.
func member(c *client, mgid byte, join sa.JoinState) (uint64, *sa.MCMemberRecord) {
	r := &sa.MCMemberRecord{MGID: ib.GID{0: 0xff, 1: 0x12, 2: 0x40, 15: mgid}, PortGID: c.gid(), QKey: 0x1234,
		PKey: 0xffff, SL: 1, Join: join}
	return sa.MemberMGID | sa.MemberPortGID | sa.MemberQKey | sa.MemberPKey | sa.MemberTClass | sa.MemberSL |
		sa.MemberFlowLabel | sa.MemberJoinState, r
}

// deliver sends a multicast packet along the switches' tables, and returns how often it came to each
// adapter.
func (s *subnet) deliver(from *testNode, mlid uint16) map[*testNode]int {
	got := map[*testNode]int{}
	queue := []testPort{from.peers[1]}
	for n := 0; len(queue) > 0; n++ {
		if n > 1000 {
			s.t.Fatal("a packet goes in circles")
		}
		at := queue[0]
		queue = queue[1:]
		if at.node.node.Type != node.Switch {
			got[at.node]++
			continue
		}
		set := routing.PortSet(at.node.node.Tables.Multicast[mlid-node.FirstMulticastLID])
		for p, e := range at.node.peers {
			if p != at.port && set.Has(uint8(p)) && e.node != nil {
				queue = append(queue, e)
			}
		}
	}
	return got
}

func TestMulticast(t *testing.T) {
	s, mgr, clients := newClients(t, Config{})
	rng := rand.New(rand.NewPCG(4, 4))
	s.tamper = func(_ *testManager, d *Datagram) bool {
		if h := new(sa.Header); d.QPN == ib.QP1 && h.Decode(d.MAD[:]) && h.Attribute == sa.AttrMCMemberRecord &&
			h.Method == mad.MethodGetResp && h.Status == 0 && mgr.m.phase != idle {
			t.Error("a join is answered before the switches have their tables")
		}
		return true
	}
	in := map[byte]map[*client]sa.JoinState{}
	mlids := map[byte]uint16{}
	for range 300 {
		c, g := clients[rng.IntN(len(clients))], byte(rng.IntN(6))
		if in[g] == nil {
			in[g] = map[*client]sa.JoinState{}
		}
		if in[g][c] == 0 {
			join := []sa.JoinState{sa.FullMember, sa.FullMember, sa.NonMember, sa.SendOnlyNonMember}[rng.IntN(4)]
			mask, r := member(c, g, join)
			status, records := c.ask(mad.MethodSet, sa.AttrMCMemberRecord, mask, r)
			if len(in[g]) == 0 && join != sa.FullMember {
				c.want(sa.StatusInvalid, status)
				delete(in, g)
				continue
			}
			if c.want(0, status); status != 0 {
				continue
			}
			var answer sa.MCMemberRecord
			answer.Decode(records[0])
			if answer.Join != join || answer.MLID < 0xc001 || mlids[g] != 0 && mlids[g] != answer.MLID ||
				answer.MTU != exact(5) || answer.Rate != exact(16) {
				t.Fatalf("joined as %+v, MLID %#x before", answer, mlids[g])
			}
			in[g][c], mlids[g] = join, answer.MLID
		} else {
			mask, r := member(c, g, in[g][c])
			status, _ := c.ask(sa.MethodDelete, sa.AttrMCMemberRecord, mask, r)
			c.want(0, status)
			delete(in[g], c)
			full := false
			for _, j := range in[g] {
				full = full || j&sa.FullMember != 0
			}
			if !full {
				delete(in, g)
				delete(mlids, g)
			}
		}
		// An answer means that the switches have their tables.
		for g, members := range in {
			for from := range members {
				got := s.deliver(from.b, mlids[g])
				for to, join := range members {
					want := 0
					if to != from && join&receives != 0 {
						want = 1
					}
					if got[to.b] != want {
						t.Fatalf("group %d: %v gets %d packets, want %d", g, join, got[to.b], want)
					}
					delete(got, to.b)
				}
				if len(got) != 0 {
					t.Fatalf("group %d: %d who are no members get packets", g, len(got))
				}
			}
		}
		if n := len(mgr.m.admin.groups); n != len(in)+1 {
			t.Fatalf("%d groups, want %d and the broadcast group", n, len(in))
		}
	}
	s.check(mgr)
	// A cable goes: the groups find another way.
	for _, b := range s.nodes[4:] {
		if b.node.Type == node.Switch && b.peers[1].node.node.Type == node.Switch {
			s.unplug(testPort{b, 1})
			break
		}
	}
	s.run(time.Second, nil)
	s.settle(mgr)
	s.check(mgr)
	for g, members := range in {
		for from := range members {
			got := s.deliver(from.b, mlids[g])
			for to, join := range members {
				if to != from && join&receives != 0 && got[to.b] != 1 {
					t.Fatalf("group %d after the cable: %d packets", g, got[to.b])
				}
			}
		}
	}
	// The records of groups that untrusted clients get, and trusted ones.
	c := clients[0]
	status, records := c.ask(sa.MethodGetTable, sa.AttrMCMemberRecord, 0, nil)
	c.want(0, status)
	if len(records) != len(in)+1 {
		t.Errorf("%d groups are told of, want %d", len(records), len(in)+1)
	}
	c.key = 1
	status, records = c.ask(sa.MethodGetTable, sa.AttrMCMemberRecord, 0, nil)
	c.want(0, status)
	want := 1
	for _, members := range in {
		want += len(members)
	}
	if len(records) != want {
		t.Errorf("%d memberships, want %d", len(records), want)
	}
}

func TestJoinRefusals(t *testing.T) {
	s, mgr, clients := newClients(t, Config{Limits: Limits{PerPort: 3, Groups: 5}})
	c := clients[0]
	set := func(mask uint64, r *sa.MCMemberRecord) mad.Status {
		status, _ := c.ask(mad.MethodSet, sa.AttrMCMemberRecord, mask, r)
		return status
	}
	mask, r := member(c, 1, sa.FullMember)
	c.want(sa.StatusInsufficientComponents, set(mask&^sa.MemberQKey, r))
	c.want(sa.StatusInsufficientComponents, set(mask&^sa.MemberPortGID, r))
	c.want(sa.StatusInsufficientComponents, set(mask&^sa.MemberJoinState, r))
	r.PortGID = clients[1].gid()
	c.want(sa.StatusDenied, set(mask, r))
	r.PortGID = ib.GID{1}
	c.want(sa.StatusInvalidGID, set(mask, r))
	r.PortGID, r.MGID = c.gid(), ib.GID{0: 0xfe, 1: 0x80}
	c.want(sa.StatusInvalid, set(mask, r))
	for _, g := range []ib.GID{
		{0: 0xff, 1: 0x32},                   // a reserved flag
		{0: 0xff, 1: 0x12, 2: 0xa0, 3: 0x1b}, // only the administrator gives these
	} {
		r.MGID = g
		c.want(sa.StatusInvalid, set(mask, r))
	}
	mask, r = member(c, 1, sa.FullMember)
	r.PKey = 0x8033
	c.want(sa.StatusInvalid, set(mask, r))
	r.PKey, r.MTU = 0xffff, sa.Selected{Selector: sa.GreaterThan, Value: 5}
	c.want(sa.StatusInvalid, set(mask|sa.MemberMTU|sa.MemberMTUSelector, r))
	r.MTU.Selector = sa.LessThan
	c.want(0, set(mask|sa.MemberMTU|sa.MemberMTUSelector, r)) // MTU 4
	r.MTU.Selector = sa.Exactly
	c.want(sa.StatusInvalid, set(mask|sa.MemberMTU|sa.MemberMTUSelector, r))
	r.QKey++
	c.want(sa.StatusInvalid, set(mask, r))
	// Joining needs no more than this.
	c.want(0, set(sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState, r))
	status, _ := c.ask(sa.MethodDelete, sa.AttrMCMemberRecord, mask,
		&sa.MCMemberRecord{MGID: r.MGID, PortGID: c.gid(), Join: sa.NonMember})
	c.want(sa.StatusInvalid, status)
	// Limits: of a port, and of all.
	for i := range byte(4) {
		mask, r = member(c, 10+i, sa.FullMember)
		want := mad.StatusOK
		if i >= 2 {
			want = sa.StatusNoResources
		}
		c.want(want, set(mask, r))
	}
	for i := range byte(4) {
		mask, r = member(clients[1], 20+i, sa.FullMember)
		status, _ := clients[1].ask(mad.MethodSet, sa.AttrMCMemberRecord, mask, r)
		want := mad.StatusOK
		if i >= 2 {
			want = sa.StatusNoResources
		}
		c.want(want, status)
	}
	// A group whose name the administrator chooses: only the group's limit speaks against it.
	mgr.m.config.Limits.Groups = 6
	mask, r = member(clients[2], 0, sa.FullMember)
	status, records := clients[2].ask(mad.MethodSet, sa.AttrMCMemberRecord, mask&^sa.MemberMGID, r)
	c.want(0, status)
	if r.Decode(records[0]); r.MGID[0] != 0xff || r.MGID[1] != 0x12 {
		t.Errorf("MGID %v", r.MGID)
	}
	// The broadcast group lasts.
	c = clients[3]
	b := sa.MCMemberRecord{MGID: broadcastGID(0xffff), PortGID: c.gid(), Join: sa.FullMember}
	const short = sa.MemberMGID | sa.MemberPortGID | sa.MemberJoinState
	for range 2 {
		c.want(0, set(short, &b))
		status, _ = c.ask(sa.MethodDelete, sa.AttrMCMemberRecord, short, &b)
		c.want(0, status)
	}
	_ = s
}
