// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A program uses a shared receive queue while a lane is at work.
func TestSharedReceivesWithoutLane(t *testing.T) {
	var h memhub.Hub
	s := &side{}
	s.Port = h.NewPort()
	s.open(t, s.Port, 64)
	srq, err := s.PD.CreateSRQ(verbs.SRQInit{MaxWR: 2, MaxSGE: 1})
	s.OK(err)
	s.soft.Lane.Mu.Lock()
	defer s.soft.Lane.Mu.Unlock()
	s.OK(srq.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{s.MR.SGE(0, 64)}}))
	s.OK(srq.Modify(verbs.SRQAttr{Limit: 1}, verbs.SRQLimit))
	if a := srq.Query(); a.Limit != 1 {
		t.Errorf("the attributes are %+v", a)
	}
}
