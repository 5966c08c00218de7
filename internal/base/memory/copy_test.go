// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A copy of any length, between any two places, is what Go's copy makes, also where they overlap.
func TestMove(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	got, want := make([]byte, 16<<10), make([]byte, 16<<10)
	for _, n := range []int{0, 1, 7, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 4096, 5000} {
		for range 200 {
			for i := range got {
				got[i] = byte(rng.Uint32())
			}
			copy(want, got)
			from, to := rng.IntN(len(got)-n), rng.IntN(len(got)-n)
			if rng.IntN(2) == 0 {
				to = from + rng.IntN(min(64, len(got)-n-from))
			}
			move(got[to:to+n], got[from:from+n])
			copy(want[to:to+n], want[from:from+n])
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes from %d to %d differ from those of copy", n, from, to)
			}
		}
	}
}

// A packet's payload, behind its header, to where a program has it.
func BenchmarkMove(b *testing.B) {
	packets, to := make([]byte, 64<<10), make([]byte, 1<<20)
	for _, payload := range []int{1024, 4096} {
		for name, f := range map[string]func(dst, src []byte){
			"Move": move,
			"Copy": func(dst, src []byte) { copy(dst, src) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, payload), func(b *testing.B) {
				const header, trailer = 12, 4
				length := header + payload + trailer
				b.SetBytes(int64(payload))
				at := 0
				for i := range b.N {
					p := packets[i%(len(packets)/length)*length:]
					f(to[at:at+payload], p[header:header+payload])
					at = (at + payload) % len(to)
				}
			})
		}
	}
}
