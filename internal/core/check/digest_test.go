// SPDX-License-Identifier: Apache-2.0

package check

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// digests are the digests of whole blocks that [sum] does not take on this processor.
var digests = map[string]func([]byte) uint64{"crc": crcDigest}

// TestDigest: each bit counts, and so does the order of words, wherever they are.
func TestDigest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{1, 64, 127, 128, 129, 256, 1000, 4096, 64 << 10} {
		b := make([]byte, length)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		all := maps.Clone(digests)
		all["sum"] = sum
		for name, digest := range all {
			whole, b := length, b
			if name != "sum" {
				if whole = length &^ (digestBlock - 1); whole == 0 {
					continue
				}
				b = b[:whole]
			}
			was := digest(b)
			for range 200 {
				i, bit := rng.IntN(whole), byte(1)<<rng.IntN(8)
				b[i] ^= bit
				if digest(b) == was {
					t.Fatalf("%s: bit %#x of byte %d of %d does not count", name, bit, i, length)
				}
				b[i] ^= bit
			}
			for range 200 {
				i, j := rng.IntN(whole), rng.IntN(whole)
				if b[i] == b[j] {
					continue
				}
				b[i], b[j] = b[j], b[i]
				if digest(b) == was {
					t.Fatalf("%s: the order of bytes %d and %d of %d does not count", name, i, j, length)
				}
				b[i], b[j] = b[j], b[i]
			}
			if digest(b) != was {
				t.Fatalf("%s: it is another one for the same %d bytes", name, length)
			}
		}
	}
}
