// SPDX-License-Identifier: Apache-2.0

package softdev

import "testing"

// TestPatience holds that acknowledgements go along with posts only while each post is
// waited for.
func TestPatience(t *testing.T) {
	var p patience
	post := func(polls int) bool {
		p.polls += polls
		return p.posted()
	}
	for i, want := range []bool{false, false, true} {
		if got := post([]int{0, awaiting, awaiting}[i]); got != want {
			t.Errorf("post %d: %v", i, got)
		}
	}
	for n := 1; post(0); n++ {
		if n > impatient {
			t.Fatal("believed for ever")
		}
	}
	for range 10 { // one in two
		if post(awaiting) || post(awaiting-1) {
			t.Fatal("some posts are not waited for")
		}
	}
}
