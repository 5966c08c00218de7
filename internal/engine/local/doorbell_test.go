// SPDX-License-Identifier: Apache-2.0

package local

import "testing"

// TestDoorbellTwoThreads has a thread sleep, and another one of its process find that it must not: the first
// is woken all the same.
func TestDoorbellTwoThreads(t *testing.T) {
	mem := make([]byte, DoorbellBytes)
	b := NewDoorbell(mem)
	if !b.Sleep(64) {
		t.Fatal("the doorbell was rung")
	}
	*word(mem, atWords) = 1 // a peer is in the middle of Ring
	*word(mem, atSlots) = 1
	if b.Sleep(64) {
		t.Fatal("the doorbell was not rung")
	}
	if !NewDoorbell(mem).Ring(0) {
		t.Error("the peer does not wake the thread that sleeps")
	}
}
