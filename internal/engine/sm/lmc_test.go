// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// With an LMC adapters have blocks of LIDs, all of which lead to them, and the administrator tells of a path
// for each; switches have one LID.
func TestLMC(t *testing.T) {
	const lmc = 2
	s := newSubnet(t)
	all, _, _, _ := s.fatTree(4)
	mgr := s.manage(all[0], Config{LMC: lmc})
	s.up(mgr)
	s.settle(mgr)
	s.check(mgr)
	taken := make(map[uint16]uint64)
	for _, d := range mgr.m.fabric.devices {
		for n := range d.ports {
			p := &d.ports[n]
			if !p.hasLID() || p.lid == 0 {
				continue
			}
			want := uint8(lmc)
			if d.isSwitch() {
				want = 0
			}
			if p.info.LMC != want || p.info.LID != p.lid || p.lid&(1<<want-1) != 0 {
				t.Errorf("port %d of %#x has LID %d and LMC %d", n, d.info.NodeGUID, p.info.LID, p.info.LMC)
			}
			for lid := p.lid; lid < p.lid+1<<want; lid++ {
				if taken[lid] != 0 {
					t.Errorf("LID %d is of %#x and %#x", lid, taken[lid], d.info.NodeGUID)
				}
				taken[lid] = d.info.NodeGUID
				for _, sw := range mgr.m.fabric.switches {
					if lft := sw.programmed.lft; int(lid) >= len(lft) || lft[lid] == node.NoRoute {
						t.Errorf("switch %#x has no way to LID %d", sw.info.NodeGUID, lid)
					}
				}
			}
		}
	}
	c := &client{s: s, b: all[1]}
	to := all[9].node.Ports[1]
	ways := make(map[uint8]bool) // by which the sender's switch goes on
	edge := mgr.m.fabric.byGUID[c.b.peers[1].node.node.GUID]
	for i := range uint16(1 << lmc) {
		ways[edge.programmed.lft[to.Address.LID+i]] = true
	}
	if len(ways) < 2 {
		t.Errorf("all LIDs take port %v", ways)
	}
	q := &sa.PathRecord{SGID: c.gid(), DGID: makeGID(0xfe80<<48, to.GUID)}
	status, records := c.ask(sa.MethodGetTable, sa.AttrPathRecord, sa.PathSGID|sa.PathDGID, q)
	c.want(mad.StatusOK, status)
	if len(records) != 1<<lmc {
		t.Fatalf("%d paths, want %d", len(records), 1<<lmc)
	}
	for i, b := range records {
		var r sa.PathRecord
		r.Decode(b)
		if r.DLID != to.Address.LID+uint16(i) || r.SLID != c.b.node.Ports[1].Address.LID+uint16(i) {
			t.Errorf("path %d is from LID %d to %d", i, r.SLID, r.DLID)
		}
	}
	status, records = c.ask(mad.MethodGet, sa.AttrPathRecord, sa.PathSGID|sa.PathDGID, q)
	c.want(mad.StatusOK, status)
	var r sa.PathRecord
	if r.Decode(records[0]); r.DLID != to.Address.LID {
		t.Errorf("the one path is to LID %d", r.DLID)
	}
	q.DLID = to.Address.LID + 3
	status, records = c.ask(mad.MethodGet, sa.AttrPathRecord, sa.PathSGID|sa.PathDLID, q)
	c.want(mad.StatusOK, status)
	if r.Decode(records[0]); r.DLID != q.DLID || r.DGID != q.DGID {
		t.Errorf("the path to LID %d is to LID %d", q.DLID, r.DLID)
	}
}
