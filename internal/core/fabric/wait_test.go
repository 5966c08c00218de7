// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiter checks the ends of a wait: something that is ready, a wake-up before or during it, a deadline that
// has passed or is moved, and Close.
func TestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWaiter()
		never := func() bool { return false }
		start := time.Now()
		took := func(what string, want time.Duration) {
			t.Helper()
			if err := w.Wait(never); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if d := time.Since(start); d != want {
				t.Errorf("%s: the wait ends after %v, want %v", what, d, want)
			}
		}
		if err := w.Wait(func() bool { return true }); err != nil {
			t.Error(err)
		}
		w.Wake()
		took("woken before", 0)
		time.AfterFunc(time.Second, w.Wake)
		took("woken", time.Second)
		time.AfterFunc(2*time.Hour, w.Wake)
		took("woken late", 2*time.Hour+time.Second)
		start = time.Now()
		w.SetDeadline(start.Add(time.Minute))
		took("an earlier deadline than none wakes", 0)
		took("a deadline", time.Minute)
		took("a deadline that has passed", time.Minute)
		start = time.Now()
		w.SetDeadline(start.Add(time.Hour))
		took("a later deadline", time.Hour)
		start = time.Now()
		w.SetDeadline(time.Time{})
		time.AfterFunc(3*time.Hour, w.Close)
		if err := w.Wait(never); err != nil && err != ErrClosed {
			t.Error(err)
		}
		if err := w.Wait(never); err != ErrClosed || time.Since(start) != 3*time.Hour {
			t.Errorf("closed: %v after %v", err, time.Since(start))
		}
	})
}
