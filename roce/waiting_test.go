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

// followed is a context that counts the functions for its end, which [context.AfterFunc] leaves to contexts
// of other packages.
type followed struct {
	context.Context
	count atomic.Int32
}

func (f *followed) AfterFunc(end func()) (stop func() bool) {
	f.count.Add(1)
	return context.AfterFunc(f.Context, end)
}

// Value hides the context behind it, which is one of package context.
func (f *followed) Value(any) any { return nil }

// TestWaitFollowsNothing holds that a wait that sleeps at once leaves nothing behind at its context: the
// device's own goroutine moves the data, so the context has nobody else to end.
func TestWaitFollowsNothing(t *testing.T) {
	dev, _ := loopback.Open(t, func(a string) (*verbs.Device, error) { return roce.Open(a, nil) })
	cq, err := dev.CreateCQ(4, &verbs.CQOptions{Spin: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	f := &followed{Context: ctx}
	if n, err := cq.Wait(f, make([]verbs.WC, 1)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d completions, %v", n, err)
	}
	if n := f.count.Load(); n != 0 {
		t.Errorf("%d functions follow the end of the wait's context", n)
	}
}
