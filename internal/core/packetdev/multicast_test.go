// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A queue pair that wants so does not receive the multicasts that it sends itself. Others of its device do, and it
// receives datagrams of others.
func TestBlockSelfMulticast(t *testing.T) {
	var h memhub.Hub
	s, other := newSide(t, &h), h.NewPort()
	group := verbs.GID{0: 0xff, 1: 0x0e, 15: 1}
	const qkey = 0x11111111
	var qps [2]*verbs.QP
	for i, block := range []bool{true, false} {
		q, err := s.PD.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: s.CQ, RecvCQ: s.CQ, BlockSelfMulticast: block})
		s.OK(err)
		s.OK(q.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: qkey},
			verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskQKey))
		s.OK(q.Modify(verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskState))
		s.OK(q.AttachMulticast(group, 0))
		for range 3 {
			s.OK(q.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{s.MR.SGE(0, 100)}}))
		}
		qps[i] = q
	}
	for _, c := range []struct {
		from verbs.GID
		qp   *verbs.QP
		want []uint64
	}{{s.Port.GID, qps[0], []uint64{1}}, {s.Port.GID, qps[1], []uint64{0, 1}}, {other.GID, qps[0], []uint64{0, 1}}} {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QPNMulticast},
			DETH: ib.DETH{QKey: qkey, SrcQP: c.qp.Num()}, Payload: []byte("hi")}
		s.soft.Lane.Mu.Lock()
		s.soft.lane.take(&p, &ibta.Arrival{From: memhub.Path(c.from).Key(), To: group, Global: true,
			Header: &ib.IPHeader{}})
		s.soft.Lane.Deliver()
		s.soft.Lane.Mu.Unlock()
		var wcs [4]verbs.WC
		n := s.CQ.Poll(wcs[:])
		if n != len(c.want) {
			t.Fatalf("%d queue pairs received it, want %d", n, len(c.want))
		}
		for i, id := range c.want {
			if wcs[i].ID != id || wcs[i].Status != verbs.StatusSuccess {
				t.Errorf("completion of %d, %v; want %d", wcs[i].ID, wcs[i].Status, id)
			}
		}
	}
	for _, q := range qps {
		s.OK(q.DetachMulticast(group, 0))
	}
}
