// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// countedCQ is the driver of a queue whose completions a test pushes. Each has another ID.
type countedCQ struct {
	cqDriver
	mu     sync.Mutex
	ids    []uint64
	last   uint64
	armed  bool
	signal func()
}

func (d *countedCQ) push(n int) {
	d.mu.Lock()
	for range n {
		d.last++
		d.ids = append(d.ids, d.last)
	}
	event := d.armed
	d.armed = false
	d.mu.Unlock()
	if event {
		d.signal()
	}
}

func (d *countedCQ) Poll(wcs []WC) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(wcs), len(d.ids))
	for i := range n {
		wcs[i] = WC{ID: d.ids[i]}
	}
	d.ids = d.ids[n:]
	return n
}

func (d *countedCQ) ReqNotify(bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = true
	return nil
}

func (d *countedCQ) Err() error     { return nil }
func (d *countedCQ) Destroy() error { return nil }

func newCountedCQ() (*CQ, *countedCQ) {
	drv := &countedCQ{}
	cq := &CQ{dev: &Device{}, drv: drv, spin: -1, sig: &cqSignal{wake: make(chan struct{}, 1)}}
	drv.signal = cq.sig.completion
	return cq, drv
}

// sleepers waits until n goroutines are in Wait.
func (cq *CQ) sleepers(t *testing.T, n int32) {
	t.Helper()
	for end := time.Now().Add(time.Minute); cq.waiters.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines wait, want %d", cq.waiters.Load(), n)
		}
	}
}

// TestWaitMany holds that completions of one event wake as many goroutines as there are completions for.
func TestWaitMany(t *testing.T) {
	const waiters = 8
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cq, drv := newCountedCQ()
	for range 100 {
		var seen [waiters + 1]atomic.Int32
		first := drv.last
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() {
				var wc [1]WC
				if _, err := cq.Wait(ctx, wc[:]); err != nil {
					t.Error(err)
					return
				}
				seen[wc[0].ID-first].Add(1)
			})
		}
		cq.sleepers(t, waiters)
		drv.push(waiters)
		all.Wait()
		for id := range waiters {
			if n := seen[id+1].Load(); n != 1 {
				t.Fatalf("completion %d went to %d goroutines", id+1, n)
			}
		}
	}
}

// TestWaitManyGone holds that each completion is taken while goroutines give up, wait again and poll.
func TestWaitManyGone(t *testing.T) {
	const each, waiters = 2000, 4
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cq, drv := newCountedCQ()
	var taken atomic.Int64
	done, finish := context.WithCancel(ctx)
	defer finish()
	took := func(n int) {
		if taken.Add(int64(n)) == each {
			finish()
		}
	}
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			for done.Err() == nil {
				short, end := done, context.CancelFunc(func() {})
				if i%2 == 0 {
					short, end = context.WithTimeout(done, 20*time.Microsecond)
				}
				n, err := cq.Wait(short, make([]WC, 1+i%2))
				if err != nil && short.Err() == nil {
					t.Error(err)
				}
				took(n)
				end()
			}
		})
	}
	all.Go(func() {
		for i := range each {
			drv.push(1)
			if i%3 == 0 {
				took(cq.Poll(make([]WC, 1)))
			}
		}
	})
	all.Wait()
	if ctx.Err() != nil {
		t.Errorf("%d of %d completions were taken within a minute", taken.Load(), each)
	}
}

// TestWaitManyClosed holds that closing the queue ends all waits.
func TestWaitManyClosed(t *testing.T) {
	const waiters = 5
	cq, _ := newCountedCQ()
	done := make(chan error, waiters)
	for range waiters {
		go func() { _, err := cq.Wait(t.Context(), make([]WC, 1)); done <- err }()
	}
	cq.sleepers(t, waiters)
	cq.sig.closed.Store(true)
	cq.sig.wakeUp()
	for range waiters {
		select {
		case err := <-done:
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a wait goes on after the queue was closed")
		}
	}
}

// BenchmarkWait measures a wait of one goroutine that sleeps until another one pushes a completion.
func BenchmarkWait(b *testing.B) {
	cq, drv := newCountedCQ()
	ask := make(chan struct{}, 1)
	go func() {
		for range ask {
			drv.push(1)
		}
	}()
	defer close(ask)
	var wc [1]WC
	b.ReportAllocs()
	for b.Loop() {
		ask <- struct{}{}
		if _, err := cq.Wait(context.Background(), wc[:]); err != nil {
			b.Fatal(err)
		}
	}
}
