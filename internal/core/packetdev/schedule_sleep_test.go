// SPDX-License-Identifier: Apache-2.0

package packetdev

import "testing"

// TestAcksAsleep sleeps with acknowledgements that are held, if the program answers, until once nothing has arrived
// meanwhile. Then it sends them before it sleeps, for a while.
func TestAcksAsleep(t *testing.T) {
	s := schedule{heldAcks: []*qp{new(qp)}}
	sleep := func(held, arrived, nothing bool) {
		t.Helper()
		if got := s.holdAsleep(); got != held {
			t.Errorf("held: %v, want %v", got, held)
		}
		if got := s.sleptForNothing(arrived); got != nothing {
			t.Errorf("nothing arrived: %v, want %v", got, nothing)
		}
	}
	sleep(false, false, false) // it does not answer
	s.answers = true
	sleep(true, true, false)
	for range 3 {
		sleep(true, false, true)
		for i := range promptSleeps {
			sleep(false, i%2 == 0, false)
		}
	}
	sleep(true, true, false)
	s.heldAcks = nil
	sleep(false, false, false) // there is nothing to hold
}
