// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestBatchHasOnePrefix posts datagrams to the queue pairs of two processes of one address: the
// datagrams to each process leave in sends of their own.
func TestBatchHasOnePrefix(t *testing.T) {
	s := start(t, verbs.UD)
	ah, err := s.host.pd.CreateAH(verbs.AHAttr{DGID: s.peer.gid()})
	if err != nil {
		t.Fatal(err)
	}
	var wrs []verbs.SendWR
	for _, qpn := range []verbs.QPN{0x100002, 0x1fffff, 0x200002, 0x200003, 0x100002} {
		wrs = append(wrs, verbs.SendWR{Op: verbs.OpSend, AH: ah, RemoteQPN: qpn, RemoteQKey: qkey})
	}
	if _, err := s.q.PostSend(wrs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 2, 1} {
		if !s.q.NextPackets(s.now, s.batch) || s.batch.Len() != want {
			t.Fatalf("a send of %d packets, want %d", s.batch.Len(), want)
		}
	}
}
