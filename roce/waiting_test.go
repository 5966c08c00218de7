// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// followed is a context that counts the functions that follow its end, which [context.AfterFunc] leaves to
// contexts of other packages.
type followed struct {
	context.Context
	all, left atomic.Int32
}

func (f *followed) AfterFunc(end func()) func() bool {
	f.all.Add(1)
	f.left.Add(1)
	stop := context.AfterFunc(f.Context, func() {
		f.left.Add(-1)
		end()
	})
	return func() bool {
		stopped := stop()
		if stopped {
			f.left.Add(-1)
		}
		return stopped
	}
}

// Value hides the context behind it, which is one of package context.
func (f *followed) Value(any) any { return nil }

// TestWaitLeavesNothing holds that nothing of a wait is left at its context when that has ended or the queue is
// closed, and one function at most until then, however often the program waits with it.
func TestWaitLeavesNothing(t *testing.T) {
	dev, _ := loopback.Open(t, func(a string) (*verbs.Device, error) { return roce.Open(a, nil) })
	cq, err := dev.CreateCQ(4, &verbs.CQOptions{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	f := &followed{Context: ctx}
	for range 3 {
		if n, err := cq.Wait(f, make([]verbs.WC, 1)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d completions, %v", n, err)
		}
	}
	if n := f.all.Load(); n > 1 {
		t.Errorf("%d functions followed the end of one context", n)
	}
	lasting := &followed{Context: t.Context()}
	time.AfterFunc(10*time.Millisecond, func() { cq.Close() })
	if n, err := cq.Wait(lasting, make([]verbs.WC, 1)); n != 0 || !errors.Is(err, verbs.ErrClosed) {
		t.Fatalf("%d completions, %v", n, err)
	}
	if err := cq.Close(); err != nil { // after the other Close
		t.Fatal(err)
	}
	for _, left := range []*atomic.Int32{&f.left, &lasting.left} {
		for end := time.Now().Add(time.Minute); left.Load() != 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := left.Load(); n != 0 {
			t.Errorf("%d functions follow the end of a context after the wait", n)
		}
	}
}
