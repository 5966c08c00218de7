// SPDX-License-Identifier: Apache-2.0

package softdev_test

import (
	"errors"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPostsInParts posts a list that is longer than a pass's, and one that does not fit: the requests that fit are
// posted.
func TestPostsInParts(t *testing.T) {
	var h memhub.Hub
	s := newSide(t, &h)
	const room = 2*softdev.BudgetPosts + 3
	qp, err := s.PD.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.CQ, RecvCQ: s.CQ,
		Cap: verbs.QPCap{MaxRecvWR: room, MaxSendWR: room}})
	s.OK(err)
	ep, err := qp.Endpoint(0)
	s.OK(err)
	s.OK(qp.Connect(ep, verbs.Endpoint{QPN: 0x777, GID: s.EP.GID, MTU: verbs.MTU1024}, nil))
	lim := qp.Query().Cap
	list := make([]verbs.SendWR, lim.MaxSendWR+softdev.BudgetPosts)
	for i := range list {
		list[i] = verbs.SendWR{Op: verbs.OpSend}
	}
	if n, err := qp.PostSendList(list); n != lim.MaxSendWR || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("posted %d sends of %d: %v", n, lim.MaxSendWR, err)
	}
	if n, err := qp.PostRecvList(make([]verbs.RecvWR, lim.MaxRecvWR)); n != lim.MaxRecvWR || err != nil {
		t.Errorf("posted %d receives of %d: %v", n, lim.MaxRecvWR, err)
	}
	if n, err := qp.PostRecvList(make([]verbs.RecvWR, 1)); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("posted %d receives to a full queue: %v", n, err)
	}
}
