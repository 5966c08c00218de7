// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkHit looks up a part of a registered buffer and releases it, with so many regions, of memory
// that stays or that the garbage collector could take.
func BenchmarkHit(b *testing.B) {
	for _, weak := range []bool{false, true} {
		for _, n := range []int{1, 16, 1024, 65536} {
			b.Run(fmt.Sprintf("weak=%v/regions=%d", weak, n), func(b *testing.B) {
				_, c := newFake(b, Options{MaxRegions: n})
				c.weak.Store(weak)
				bufs := make([][]byte, n)
				for i := range bufs {
					bufs[i] = make([]byte, 4096)
					h := get(b, c, bufs[i])
					h.Release()
				}
				order := rand.New(rand.NewPCG(1, 2)).Perm(n)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					h, err := c.Get(bufs[order[i]][64:1024])
					if err != nil {
						b.Fatal(err)
					}
					h.Release()
					if i++; i == n {
						i = 0
					}
				}
				if s := c.Stats(); s.Misses != uint64(n) {
					b.Fatalf("%+v", s)
				}
			})
		}
	}
}

// BenchmarkHitParallel is BenchmarkHit in as many goroutines as there are processors.
func BenchmarkHitParallel(b *testing.B) {
	_, c := newFake(b, Options{})
	buf := make([]byte, 4096)
	keep := get(b, c, buf)
	defer keep.Release()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h, err := c.Get(buf[64:1024])
			if err != nil {
				b.Error(err)
				return
			}
			h.Release()
		}
	})
}
