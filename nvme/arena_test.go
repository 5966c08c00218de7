// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Parts that are in use at the same time do not overlap, nobody waits forever, and everything is free in the end.
func TestArena(t *testing.T) {
	const size = 16 * arenaPage
	a := newArena(size)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	memory := make([]int, size/arenaPage)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 50 {
				n := 1 + rand.IntN(size)
				s, err := a.get(ctx, n)
				if err != nil || s.n != pagesOf(n) {
					t.Error(n, s, err)
					return
				}
				part := memory[s.at:][:s.n] // the race detector sees who else has it
				for j := range part {
					part[j] = i
				}
				for j := range part {
					if part[j] != i {
						t.Error("another one has the same part")
					}
				}
				a.put(s)
			}
		})
	}
	all.Wait()
	s, err := a.get(ctx, size)
	if err != nil {
		t.Fatal("not all is free:", err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	if _, err := a.get(gone, 1); err != context.Canceled {
		t.Error(err)
	}
	a.put(s)
	a.put(span{})
}
