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

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// output keeps what the programs of a world print.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// TestPrimes: each task is done once, by whichever worker, and the results add up.
func TestPrimes(t *testing.T) {
	each = 5
	const want = "168 primes below 1000\n"
	rdmatest.Run(t, 10, func(w *rdmatest.World) {
		said := &output{}
		out = said
		open := []func(*rdmatest.Host) *verbs.Device{(*rdmatest.Host).RoCE, (*rdmatest.Host).IWARP}[w.Rand.IntN(2)]
		owner := w.Host("owner")
		dev := open(owner)
		ended := owner.Go(func(ctx context.Context) error { return own(ctx, dev) })
		var workers []*rdmatest.Task
		for i := range 1 + w.Rand.IntN(3) {
			h := w.Host(fmt.Sprint("worker", i))
			dev := open(h)
			workers = append(workers,
				h.Go(func(ctx context.Context) error { return work(ctx, dev, owner.Addr().String()) }))
		}
		w.Draw(rdmatest.Packets | rdmatest.Passing)
		if err := ended.Wait(); err != nil {
			w.Fatal(err)
		}
		for _, worker := range workers {
			// One that comes when all is done finds nobody who listens, or is reset while it waits to be accepted. The
			// owner drops one that it has not accepted yet, as the last message of the set-up was lost, although it has
			// worked.
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
	})
}
