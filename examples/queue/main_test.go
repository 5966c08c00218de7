// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// output keeps the output of a world's programs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// TestPrimes: each task is done, by whichever worker, and the results add up.
func TestPrimes(t *testing.T) {
	rdmatest.Run(t, 10, play)
}

// TestImpatience: workers that draw again if no answer comes in time have drawn twice, and the test finds the task that
// nobody does.
func TestImpatience(t *testing.T) {
	right := next
	defer func() { next = right }()
	next = func(ctx context.Context, conn *cm.Conn, counter verbs.Remote) (uint64, error) {
		for {
			soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			task, err := right(soon, conn, counter)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return task, err
			}
		}
	}
	f := rdmatest.Find(t, 1000, play)
	if f == nil || !strings.Contains(f.Texts[0], "waits for a result") {
		t.Fatalf("it is not found: %v", f)
	}
	t.Log(f)
}

// play has workers do the tasks of an owner.
func play(w *rdmatest.World) {
	each = 5
	const want = "168 primes below 1000\n"
	said := &output{}
	out = said
	open := []func(*rdmatest.Host) *verbs.Device{(*rdmatest.Host).RoCE, (*rdmatest.Host).IWARP}[w.Rand.IntN(2)]
	owner := w.Host("owner")
	dev := open(owner)
	ended := owner.Go(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		return own(ctx, dev)
	})
	var workers []*rdmatest.Task
	for i := range 1 + w.Rand.IntN(3) {
		h := w.Host(fmt.Sprint("worker", i))
		dev := open(h)
		workers = append(workers,
			h.Go(func(ctx context.Context) error { return work(ctx, dev, owner.Addr().String()) }))
	}
	w.Draw(rdmatest.Packets | rdmatest.Passing)
	switch err := ended.Wait(); {
	case errors.Is(err, context.DeadlineExceeded):
		w.Fatal("the owner waits for a result that nobody writes")
	case err != nil:
		w.Fatal(err)
	}
	for _, worker := range workers {
		// One that comes when all is done finds no listener, or is reset while it waits to be accepted. The owner drops
		// one that it has not accepted yet, as the last message of the set-up was lost, although it has worked.
		var rejected *cm.RejectError
		late := func(err error) bool {
			return errors.As(err, &rejected) || errors.Is(err, syscall.ECONNREFUSED) ||
				errors.Is(err, syscall.ECONNRESET) ||
				errors.Is(err, cm.ErrDisconnected)
		}
		if err := worker.Wait(); err != nil && !late(err) {
			w.Fatal(err)
		}
	}
	if got := said.text.String(); !strings.Contains(got, want) {
		w.Fatalf("it prints %q, want %q", got, want)
	}
}
