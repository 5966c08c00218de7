// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// A thousand goroutines that wait on a thousand queues need no thread each.
func TestManyWait(t *testing.T) {
	name, _ := named(t)
	dev := open(t, name)
	const n = 1000
	ctx, cancel := context.WithCancel(t.Context())
	var ready, done sync.WaitGroup
	for i := range n {
		cq, err := dev.CreateCQ(16, &verbs.CQOptions{Spin: -1})
		if i >= 50 && err != nil {
			t.Logf("the device has %d queues and no more: %v", i, err)
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			var wc [1]verbs.WC
			if _, err := cq.Wait(ctx, wc[:]); !errors.Is(err, context.Canceled) {
				t.Errorf("waiting ended with %v", err)
			}
		})
	}
	ready.Wait()
	before := pprof.Lookup("threadcreate").Count()
	time.Sleep(100 * time.Millisecond)
	if now := pprof.Lookup("threadcreate").Count(); now > 100 {
		t.Errorf("%d threads while %d goroutines wait, %d at first", now, n, before)
	}
	cancel()
	done.Wait()
}

// Memory of Go that is registered stays where it is, and is kept alive, while the program drops it.
func TestPinned(t *testing.T) {
	name, _ := named(t)
	dev := open(t, name)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		mr, err := pd.RegMR(make([]byte, 100), verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		if mr.Addr() == 0 || mr.LKey() == 0 && os.Getenv(deviceVariable) == "" {
			t.Fatalf("a region at %#x with key %#x", mr.Addr(), mr.LKey())
		}
	}
	if err := pd.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("closing a domain with regions: %v", err)
	}
}
