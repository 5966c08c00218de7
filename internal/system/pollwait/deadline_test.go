// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"testing"
	"time"
)

func TestDeadline(t *testing.T) {
	var d Deadline
	at := time.Now().Add(time.Hour)
	for _, step := range []struct {
		to      time.Time
		earlier bool
	}{{at, true}, {at, false}, {at.Add(time.Hour), false}, {at, true}, {time.Time{}, false}, {at, true},
		{began.Add(-time.Hour), true}} {
		if earlier := d.Set(step.to); earlier != step.earlier {
			t.Errorf("%v: earlier is %v", step.to, earlier)
		}
	}
	if d.Set(at); d.Get().Until() > time.Hour || d.Get().Until() < time.Hour/2 {
		t.Errorf("%v until then, want an hour", d.Get().Until())
	}
	if left := d.Left(); left > time.Hour || left < time.Hour/2 {
		t.Errorf("%v left, want an hour", left)
	}
	if d.Set(time.Time{}); d.Get() != 0 || d.Left() >= 0 {
		t.Error("no deadline is one")
	}
	if d.Set(began.Add(-time.Hour)); d.Left() != 0 {
		t.Errorf("%v left of a deadline that has passed", d.Left())
	}
}
