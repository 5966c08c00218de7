// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestOwnChances: which packets one fault of a path strikes does not depend on its other faults.
func TestOwnChances(t *testing.T) {
	// struck returns which of a hundred packets are lost, come twice, late and corrupted.
	struck := func(p Path) (all [4][]int) {
		synctest.Test(t, func(t *testing.T) {
			n := New(1, nil)
			defer n.Close()
			way := n.path(n.NewHost(), n.NewHost())
			way.Path = p
			for i := range 100 {
				got := way.passages(0, 100)
				if len(got) == 0 {
					all[0] = append(all[0], i)
					continue
				}
				for k, is := range []bool{len(got) == 2, got[0].at > 0, got[0].flip >= 0} {
					if is {
						all[k+1] = append(all[k+1], i)
					}
				}
			}
		})
		return all
	}
	with := struck(Path{Loss: 0.1, Duplicate: 0.2, Reorder: 0.3, Jitter: time.Second, Corrupt: 0.2})
	for k, alone := range []Path{{Loss: 0.1}, {Duplicate: 0.2}, {Reorder: 0.3, Jitter: time.Second}, {Corrupt: 0.2}} {
		got := struck(alone)[k]
		if k > 0 { // lost packets cannot be seen
			got = slices.DeleteFunc(got, func(i int) bool { return slices.Contains(with[0], i) })
		}
		if len(got) == 0 || !slices.Equal(got, with[k]) {
			t.Errorf("%+v alone strikes %v, with others %v", alone, got, with[k])
		}
	}
}
