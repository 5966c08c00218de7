// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"math/bits"
	"testing"
)

// Every ID of a width comes once before one comes again, in an order that the key says.
func TestNames(t *testing.T) {
	for width := 2; width <= 12; width++ {
		n := newIDGenerator([16]byte{byte(width)}, width)
		seen := map[uint32]bool{}
		for range 1 << width {
			id := n.id()
			if id>>width != 0 || seen[id] {
				t.Fatalf("%d bits: %#x is too wide, or comes twice", width, id)
			}
			seen[id] = true
		}
	}
}

// Successive IDs have nothing in common, neither with each other nor with the IDs of another key.
func TestNamesOfKeys(t *testing.T) {
	a, b := newIDGenerator([16]byte{1}, 28), newIDGenerator([16]byte{2}, 28)
	const n = 4096
	id, other, tid := a.id(), b.id(), a.tid()
	near, differ, equal := 0, 0, 0
	for range n {
		next, nextTID, nextOther := a.id(), a.tid(), b.id()
		if d := int32(next - id); d > -1<<12 && d < 1<<12 {
			near++
		}
		differ += bits.OnesCount32(next^id) + bits.OnesCount32(nextTID^tid)
		if next == nextOther || id == other {
			equal++
		}
		id, tid, other = next, nextTID, nextOther
	}
	// By chance one of 2^15 is as near; half of 28 and of 32 bits differ.
	if near > 4 || equal > 2 || differ < 29*n || differ > 31*n {
		t.Errorf("of %d names %d follow their neighbours, %d are another key's; %d bits differ", n, near, equal, differ)
	}
}
