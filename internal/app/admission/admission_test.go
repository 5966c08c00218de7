// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"testing"
	"time"
)

// TestWhoGivesWay: clients of 4 at a time, by their last action and its time.
func TestWhoGivesWay(t *testing.T) {
	const limit = 4
	now := time.Now()
	for _, c := range []struct {
		name  string
		ages  [limit]time.Duration
		spoke [limit]bool
		want  int // -1: none
	}{
		{"all active", [4]time.Duration{0, 1, 2, 3}, [4]bool{true, true, true, true}, -1},
		{"idle", [4]time.Duration{0, 2 * idleAfter, idleAfter, 0}, [4]bool{true, true, true, true}, 1},
		{"mute for long", [4]time.Duration{0, 9 * idleAfter, idleAfter, 0}, [4]bool{true, true, false, true}, 2},
		{"has just come", [4]time.Duration{0, idleAfter, 0, 0}, [4]bool{true, true, false, true}, 1},
		{"has just come among the active", [4]time.Duration{0, 0, 0, 0}, [4]bool{true, true, false, true}, 2},
		{"most are mute", [4]time.Duration{9 * idleAfter, 1, 3, 2}, [4]bool{true, false, false, false}, 2},
	} {
		var all Clients
		var list [limit]*Client
		ended := -1
		all.all = map[*Client]struct{}{}
		for i := range list {
			list[i] = &Client{of: &all, last: now.Add(-c.ages[i]), spoke: c.spoke[i], end: func(error) { ended = i }}
			all.all[list[i]] = struct{}{}
		}
		n, _ := all.admit(context.Background(), limit)
		if ended != c.want || (n != nil) != (c.want >= 0) {
			t.Errorf("%s: %d gives way, want %d", c.name, ended, c.want)
		}
		if len(all.all) != limit {
			t.Errorf("%s: %d clients", c.name, len(all.all))
		}
	}
}
