// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ready polls at an event, and returns Poll's count.
func ready(t *testing.T, e *Event, left time.Duration) int {
	t.Helper()
	n, err := Poll([]unix.PollFd{{Fd: e.FD(), Events: unix.POLLIN}}, left)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEvent(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Drain(); ready(t, e, 0) != 0 {
		t.Error("an event that nobody rang is ready")
	}
	if ready(t, e, time.Millisecond) != 0 {
		t.Error("the time ran out, and the event is ready")
	}
	e.Ring()
	if e.Ring(); ready(t, e, -1) != 1 {
		t.Error("the event is not ready after Ring")
	}
	if e.Drain(); ready(t, e, 0) != 0 {
		t.Error("a drained event is ready")
	}
	time.AfterFunc(10*time.Millisecond, e.Ring)
	if ready(t, e, -1) != 1 {
		t.Error("a poll without limit ended, and the event is not ready")
	}
}

// TestRingClosed rings an event that is closed, whose number belongs to another file by now.
func TestRingClosed(t *testing.T) {
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	number := e.FD()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.FD() != number {
		t.Skipf("descriptor %d has another owner", number)
	}
	e.Ring()
	if ready(t, other, 0) != 0 {
		t.Error("an event that is closed rings another")
	}
	other.Ring()
	e.Drain()
	if err := e.Close(); err != nil || ready(t, other, 0) != 1 {
		t.Errorf("closing an event again: %v, and it takes what rang another", err)
	}
}
