// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// piece is how the input of a fuzz test is cut: a byte for the queue pair, two for the LID, and a
// datagram.
const piece = 3 + mad.Size

func pieces(ds ...Datagram) (b []byte) {
	for _, d := range ds {
		b = append(b, byte(d.QPN), byte(d.LID>>8), byte(d.LID))
		b = append(b, d.MAD[:]...)
	}
	return b
}

// FuzzHandleMAD gives a manager that is up datagrams from outside, and time to react. It has to stay
// within its bounds, and unless a client that knows its key has stopped it, the subnet works afterwards.
func FuzzHandleMAD(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	to1 := func(method mad.Method, a mad.Attribute, mask uint64, lid uint16,
		r interface{ Append([]byte) []byte }) (d Datagram) {
		d.QPN, d.LID = ib.QP1, lid
		h := sa.NewHeader(method, a, 5, mask)
		h.Append(d.MAD[:0])
		if r != nil {
			r.Append(d.MAD[sa.HeaderLen:sa.HeaderLen])
		}
		return d
	}
	to0 := func(p smp.SMP, lid uint16) (d Datagram) {
		d.LID = lid
		p.Append(d.MAD[:0])
		return d
	}
	guid := func(i int) uint64 { return uint64(0x1000_0000+i)<<16 + 1 } // as newSubnet gives it to adapters
	join := &sa.MCMemberRecord{MGID: ib.GID{0: 0xff, 1: 0x12}, PortGID: makeGID(0xfe80<<48, guid(1)), PKey: 0xffff,
		Join: 1}
	for lid := range uint16(4) {
		for _, a := range []mad.Attribute{sa.AttrNodeRecord, sa.AttrPortInfoRecord, sa.AttrLinkRecord,
			sa.AttrPathRecord, sa.AttrMCMemberRecord, sa.AttrServiceRecord, sa.AttrLinearRecord, sa.AttrMulticastRecord,
			sa.AttrSLtoVLRecord,
			sa.AttrInformInfoRecord, sa.AttrSMInfoRecord} {
			f.Add(pieces(to1(sa.MethodGetTable, a, 0, lid+1, nil), to1(mad.MethodGet, a, 1, lid+1, nil)))
		}
		f.Add(pieces(to1(mad.MethodSet, sa.AttrMCMemberRecord, 0xffff_ffff&^0xfc0|0x1c0c7, lid+1, join),
			to1(sa.MethodDelete, sa.AttrMCMemberRecord, 0x1ffff, lid+1, join)))
		f.Add(pieces(to1(mad.MethodSet, mad.AttrInformInfo, 0, lid+1,
			&sa.InformInfo{LIDBegin: 0xffff, Generic: 1, Subscribe: 1, Type: 0xffff, Trap: 0xffff,
				Producer: 0xffffff})))
		f.Add(pieces(to1(mad.MethodSet, sa.AttrServiceRecord, 3, lid+1,
			&sa.ServiceRecord{ID: 4, GID: join.PortGID, Lease: 1})))
	}
	trap := smp.New(mad.MethodTrap, mad.AttrNotice, 0, 9)
	n := mad.Notice{Generic: true, Trap: mad.TrapLinkState}
	n.Append(trap.Data[:0])
	f.Add(pieces(to0(trap, 2), to0(trap, 3)))
	info := smp.SMInfo{GUID: guid(2), SMKey: 1, Priority: 15, State: smp.SMMaster}
	for modifier := range uint32(6) {
		set := smp.NewDirected(mad.MethodSet, smp.AttrSMInfo, modifier, 1, []byte{1})
		info.Append(set.Data[:0])
		get := smp.New(mad.MethodGet, smp.AttrSMInfo, modifier, 1)
		f.Add(pieces(to0(set, node.PermissiveLID), to0(get, 2)))
	}
	f.Add(pieces(to0(smp.New(mad.MethodGetResp, smp.AttrNodeInfo, 0, 0x100), 2)))

	f.Fuzz(func(t *testing.T, input []byte) {
		s := newSubnet(t)
		all := s.star(3)
		mgr := s.manage(all[0],
			Config{Limits: Limits{Replies: 20, Groups: 3, Services: 3, Subscriptions: 3, Responses: 3}})
		s.up(mgr)
		trusted := false // by SMKey: it may do nearly everything
		for ; len(input) >= piece; input = input[piece:] {
			d := Datagram{QPN: ib.QPN(input[0] & 1), LID: uint16(input[1])<<8 | uint16(input[2]), Peer: 1}
			copy(d.MAD[:], input[3:])
			var p smp.SMP
			p.Decode(d.MAD[:])
			trusted = trusted || d.QPN == 0 && p.Attribute == smp.AttrSMInfo && p.Method == mad.MethodSet
			mgr.m.HandleMAD(s.now, &d)
			var out Datagram
			for n := 0; mgr.m.Next(s.now, &out); n++ {
				if n > 10_000 {
					t.Fatal("it sends without end")
				}
				s.send(mgr.node, mgr.port, &out)
				out = Datagram{}
			}
			s.run(100*time.Millisecond, nil)
			a := &mgr.m.admin
			if len(mgr.m.replies) > 20 || len(a.groups) > 4 || len(a.services) > 3 || len(a.subs) > 3 ||
				len(a.transfers) > 3 || len(a.reports) > 20 {
				t.Fatalf("%d replies, %d groups, %d services, %d subscriptions, %d transfers, %d reports",
					len(mgr.m.replies), len(a.groups),
					len(a.services), len(a.subs), len(a.transfers), len(a.reports))
			}
		}
		s.run(time.Minute, nil)
		if mgr.m.State() != smp.SMMaster && !trusted {
			t.Fatalf("the manager is %v", mgr.m.State())
		}
		s.check(mgr)
	})
}

// FuzzResponses lets the nodes of a subnet answer with anything.
func FuzzResponses(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add([]byte{0}, uint16(0))
	f.Add([]byte{0, 1, 2, 3}, uint16(3))
	f.Add([]byte{64, 255, 65, 255, 66, 255, 67, 255}, uint16(0))
	f.Fuzz(func(t *testing.T, input []byte, first uint16) {
		s := newSubnet(t)
		all, _ := s.line(3, true)
		mgr := s.manage(all[0], Config{Limits: Limits{Nodes: 50}})
		sent := 0
		answer := 0
		s.forge = func(b []byte) {
			// Two bytes change a byte of each answer: its place, and its value.
			if answer++; answer >= int(first) && len(input) >= 2 {
				b[int(input[0])] = input[1]
				input = input[2:]
			}
		}
		s.tamper = func(*testManager, *Datagram) bool {
			sent++
			return sent < 100_000
		}
		s.run(time.Minute, nil)
		if sent >= 100_000 {
			t.Fatal("it sends without end")
		}
		// The nodes have not changed, and the manager finds them as they are in the end. If a forged answer has
		// made it a standby manager, by the rules, that ends when there is no master.
		s.run(3*time.Minute, nil)
		s.forge = nil
		if mgr.m.State() == smp.SMMaster {
			mgr.m.Resweep(s.now)
			s.settle(mgr)
			s.check(mgr)
		}
	})
}
