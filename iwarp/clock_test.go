// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"testing"
	"time"
)

func TestDeadline(t *testing.T) {
	var d deadline
	at := time.Now().Add(time.Hour)
	for _, step := range []struct {
		to      time.Time
		earlier bool
	}{{at, true}, {at, false}, {at.Add(time.Hour), false}, {at, true}, {time.Time{}, false}, {at, true}, {began.Add(-time.Hour), true}} {
		if earlier := d.set(step.to); earlier != step.earlier {
			t.Errorf("%v: earlier is %v", step.to, earlier)
		}
	}
	if d.set(at); d.get().until() > time.Hour || d.get().until() < time.Hour/2 {
		t.Errorf("%v until then, want an hour", d.get().until())
	}
	if d.set(time.Time{}); d.get() != 0 {
		t.Error("no deadline is one")
	}
}
