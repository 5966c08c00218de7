// SPDX-License-Identifier: Apache-2.0

package local

import (
	"testing"
	"unsafe"
)

// words returns n bytes that begin at a word, as a segment does: arm64 faults at atomic accesses elsewhere.
func words(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, (n+7)/8)))), n)
}

// TestDoorbellTwoThreads has a thread sleep, and another one of its process find that it must not: the first
// is woken all the same.
func TestDoorbellTwoThreads(t *testing.T) {
	mem := words(DoorbellBytes)
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

// TestDoorbellLastSlot holds that no slot below the limit is rung unheard, at the ends of words too.
func TestDoorbellLastSlot(t *testing.T) {
	for _, slot := range []uint32{0, 63, 64, 4095, 4096, 8191, 8192, DoorbellSlots - 1} {
		b := NewDoorbell(words(DoorbellBytes))
		limit := int(slot) + 1
		b.Ring(slot)
		if b.Sleep(limit) {
			t.Errorf("the owner may sleep although slot %d was rung", slot)
		}
		taken := -1
		b.Take(limit, func(s int) { taken = s })
		if taken != int(slot) {
			t.Errorf("slot %d was rung, %d is taken", slot, taken)
		}
	}
}
