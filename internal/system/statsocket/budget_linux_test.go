// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"testing"
	"time"
)

// However often snapshots are asked for, they take a share of 1/restFactor; a few in a row wait for nothing.
func TestBudget(t *testing.T) {
	const work = 3 * time.Millisecond
	var b budget
	now := time.Unix(1000, 0)
	start, total := now, time.Duration(0)
	for i := range 1000 {
		now = now.Add(work)
		total += work
		rest := b.rest(now, work)
		if quick := total <= burst; quick != (rest == 0) {
			t.Fatalf("after snapshot %d it rests for %v", i+1, rest)
		}
		if rest > restMost {
			t.Fatalf("it rests for %v", rest)
		}
		now = now.Add(rest)
	}
	if most := now.Sub(start)/restFactor + burst + work; total > most {
		t.Errorf("%v of work in %v", total, now.Sub(start))
	}
	if rest := b.rest(now.Add(time.Hour), work); rest != 0 {
		t.Errorf("after an hour of nothing it rests for %v", rest)
	}
	if rest := b.rest(now, time.Hour); rest != restMost {
		t.Errorf("after an hour of work it rests for %v", rest)
	}
	if rest := b.rest(now.Add(restMost), 0); rest != 0 {
		t.Errorf("an hour of work is not forgotten: it rests for %v", rest)
	}
}
