// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"testing"
)

// TestReady holds that ready queue pairs take turns, each once.
func TestReady(t *testing.T) {
	var s schedule
	qps := []*qp{{}, {}, {}, {}}
	for range 3 {
		for _, q := range qps {
			s.addReady(q)
		}
	}
	s.remove(qps[1])
	s.holdAck(qps[2])
	s.holdAck(qps[2])
	for _, want := range []*qp{qps[0], qps[2], qps[3], nil} {
		if got := s.nextReady(0); got != want {
			t.Fatalf("got %p, want %p", got, want)
		}
	}
	s.holdAck(qps[3])
	s.remove(qps[3])
	s.releaseAcks()
	if got := s.nextReady(0); got != qps[2] || s.nextReady(0) != nil {
		t.Errorf("released %p, want %p alone", got, qps[2])
	}
}
