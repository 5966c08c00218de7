// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// requests are those that name memory, and the right that each needs (IBTA 10.6.3.1, annex A19).
var requests = map[string]struct {
	op        ib.Operation
	payload   int
	placement ib.Placement
	right     verbs.Access
}{
	"WRITE":                {ib.OpWriteOnly, 8, 0, verbs.RemoteWrite},
	"READ":                 {ib.OpReadRequest, 0, 0, verbs.RemoteRead},
	"FETCH AND ADD":        {ib.OpFetchAdd, 0, 0, verbs.RemoteAtomic},
	"COMPARE AND SWAP":     {ib.OpCompareSwap, 0, 0, verbs.RemoteAtomic},
	"ATOMIC WRITE":         {ib.OpAtomicWrite, 8, 0, verbs.RemoteWrite},
	"FLUSH to visibility":  {ib.OpFlush, 0, ib.PlacementGlobal, verbs.FlushGlobal},
	"FLUSH to persistence": {ib.OpFlush, 0, ib.PlacementPersistent, verbs.FlushPersistent},
}

// A request is carried out if both the queue pair and the region give its right, and no other right stands in
// for it. What is refused changes nothing (IBTA 9.7.4.1.3, 9.7.4.1.5, 10.6.3.1).
func TestRights(t *testing.T) {
	for name, r := range requests {
		all := everything
		if r.right == verbs.FlushPersistent {
			all &^= verbs.FlushPersistent // of memory that is not persistent
		}
		for _, c := range []struct {
			qp, region verbs.Access
			refused    ib.NAKCode
		}{
			{r.right, r.right | verbs.LocalWrite, 0},
			{everything &^ r.right, everything, ib.NAKInvalidRequest},
			{everything, everything &^ r.right, ib.NAKRemoteAccessError},
		} {
			if r.right == verbs.FlushPersistent && c.refused == 0 {
				continue // [TestFlushPersistent]
			}
			s := start(t, verbs.RC, func(o *options) { o.attr.Access = c.qp | verbs.LocalWrite })
			s.mr = s.register(64, c.region&all)
			for i := range s.mr.Bytes() {
				s.mr.Bytes()[i] = 0xe0
			}
			before := bytes.Clone(s.mr.Bytes())
			p := s.reth(s.packet(r.op, recvPSN, r.payload), 0, 8)
			p.FETH.Placement = r.placement
			p.AtomicETH.Compare, p.AtomicETH.Swap = 0xe0e0e0e0e0e0e0e0, 1
			reason := s.in(p)
			if c.refused == 0 {
				if reason != ibta.Taken || s.q.State() == verbs.Err {
					t.Errorf("%s where just that is allowed: %v, state %v", name, reason, s.q.State())
				}
				continue
			}
			s.wantAETH(recvPSN, ib.NAK(c.refused))
			s.wantState(verbs.Err)
			if !bytes.Equal(s.mr.Bytes(), before) {
				t.Errorf("%s without the right has changed memory", name)
			}
		}
	}
}
