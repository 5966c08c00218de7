// SPDX-License-Identifier: Apache-2.0

package crc

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func testBytes(n int) []byte {
	r := rand.NewChaCha8([32]byte{'c', 'r', 'c'})
	b := make([]byte, n)
	r.Read(b)
	return b
}

// kinds are the CRCs, with the tables of the standard library.
var kinds = []struct {
	name   string
	update func(uint32, []byte) uint32
	table  *crc32.Table
}{{"IEEE", UpdateIEEE, crc32.IEEETable}, {"Castagnoli", UpdateCastagnoli, castagnoliTable}}

// checkCRC compares both CRCs with the standard library.
func checkCRC(t *testing.T, state uint32, data []byte) {
	t.Helper()
	for _, k := range kinds {
		if got, want := k.update(state, data), crc32.Update(state, k.table, data); got != want {
			t.Fatalf("%s: state %08x, %d bytes: %08x, want %08x", k.name, state, len(data), got, want)
		}
	}
}

func TestCRC(t *testing.T) {
	b := testBytes(64 + 1<<16)
	for n := range 601 {
		checkCRC(t, 0, b[:n])
		checkCRC(t, 0xffff_ffff, b[n:2*n])
	}
	// Whatever follows does not count, at every alignment.
	for at := range 64 {
		for range 60 {
			n := rand.IntN(len(b) - at)
			checkCRC(t, rand.Uint32(), b[at:at+n])
			checkCRC(t, rand.Uint32(), b[at:at+n>>6])
		}
	}
}

// Every bit of every block counts in its place.
func TestCRCSingleBits(t *testing.T) {
	for _, n := range []int{64, 100, 256, 512 + 37} {
		b := make([]byte, n)
		for i := range 8 * n {
			b[i/8] = 1 << (i % 8)
			checkCRC(t, 0, b)
			b[i/8] = 0
		}
	}
}

func TestCRCSplit(t *testing.T) {
	b := testBytes(1100)
	for _, k := range kinds {
		want := crc32.Checksum(b, k.table)
		for i := range len(b) + 1 {
			if got := k.update(k.update(0, b[:i]), b[i:]); got != want {
				t.Fatalf("%s: split at %d: %08x, want %08x", k.name, i, got, want)
			}
		}
	}
}

func FuzzCRC(f *testing.F) {
	for _, n := range []int{0, 1, 63, 64, 65, 255, 256, 1040, 4112} {
		f.Add(uint32(n), testBytes(n), uint16(n/3))
	}
	f.Fuzz(func(t *testing.T, state uint32, data []byte, split uint16) {
		checkCRC(t, state, data)
		i := min(int(split), len(data))
		for _, k := range kinds {
			if got, want := k.update(k.update(state, data[:i]), data[i:]), k.update(state, data); got != want {
				t.Fatalf("%s: %d bytes split at %d: %08x, want %08x", k.name, len(data), i, got, want)
			}
		}
	})
}

func BenchmarkCRC(b *testing.B) {
	data := testBytes(61920 + 12)[12:]
	for _, n := range []int{64, 80, 1024, 1040, 4096, 4112, 61920} {
		for _, k := range kinds {
			bench := func(name string, update func(uint32, []byte) uint32) {
				b.Run(fmt.Sprintf("%s/%s/%d", k.name, name, n), func(b *testing.B) {
					b.SetBytes(int64(n))
					var s uint32
					for b.Loop() {
						s = update(s, data[:n])
					}
				})
			}
			bench("ours", k.update)
			bench("std", func(s uint32, d []byte) uint32 { return crc32.Update(s, k.table, d) })
		}
	}
}
