// SPDX-License-Identifier: Apache-2.0

package crc

import (
	"bytes"
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
	copy   func(state uint32, dst, src []byte) uint32
	table  *crc32.Table
}{{"IEEE", UpdateIEEE, CopyIEEE, crc32.IEEETable}, {"Castagnoli", UpdateCastagnoli, CopyCastagnoli, castagnoliTable}}

// checkCRC compares both CRCs with the standard library.
func checkCRC(t *testing.T, state uint32, data []byte) {
	t.Helper()
	for _, k := range kinds {
		if got, want := k.update(state, data), crc32.Update(state, k.table, data); got != want {
			t.Fatalf("%s: state %08x, %d bytes: %08x, want %08x", k.name, state, len(data), got, want)
		}
	}
}

func TestCRC(t *testing.T) { eachWidth(t, func(int) { testCRC(t) }) }

func testCRC(t *testing.T) {
	b := testBytes(64 + 1<<16)
	for n := range 601 {
		checkCRC(t, 0, b[:n])
		checkCRC(t, 0xffff_ffff, b[n:2*n])
	}
	// Every number of rounds and some runs of them, with rests of all sizes.
	for n := 1000; n < 20000; n += 71 {
		checkCRC(t, rand.Uint32(), b[n%64:][:n])
	}
	// Bytes behind the data do not count, at every alignment.
	for at := range 64 {
		for range 60 {
			n := rand.IntN(len(b) - at)
			checkCRC(t, rand.Uint32(), b[at:at+n])
			checkCRC(t, rand.Uint32(), b[at:at+n>>6])
		}
	}
}

// Every bit of every block counts in its place.
func TestCRCSingleBits(t *testing.T) { eachWidth(t, func(int) { testCRCSingleBits(t) }) }

func testCRCSingleBits(t *testing.T) {
	for _, n := range []int{64, 100, 256, 512 + 37, 1024 + 201} {
		b := make([]byte, n)
		for i := range 8 * n {
			b[i/8] = 1 << (i % 8)
			checkCRC(t, 0, b)
			b[i/8] = 0
		}
	}
}

func TestCRCSplit(t *testing.T) { eachWidth(t, func(int) { testCRCSplit(t) }) }

func testCRCSplit(t *testing.T) {
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

// compareCopy compares the copies of both CRCs with copy and the standard library, and wants the
// bytes around the copy as they were.
func compareCopy(t *testing.T, state uint32, src []byte, at int) {
	t.Helper()
	const around = 70
	for _, k := range kinds {
		room := bytes.Repeat([]byte{0xa5}, at+len(src)+2*around)
		dst := room[around+at:][:len(src)]
		want := crc32.Update(state, k.table, src)
		if got := k.copy(state, dst, src); got != want {
			t.Fatalf("%s: state %08x, %d bytes: %08x, want %08x", k.name, state, len(src), got, want)
		}
		if !bytes.Equal(dst, src) {
			t.Fatalf("%d bytes are not as they were", len(src))
		}
		if got := k.copy(state, dst, dst); got != want || !bytes.Equal(dst, src) {
			t.Fatalf("%s: %d bytes onto themselves: %08x, want %08x", k.name, len(src), got, want)
		}
		for i, b := range room {
			if b != 0xa5 && (i < around+at || i >= around+at+len(src)) {
				t.Fatalf("%d bytes to %d: byte %d was written", len(src), around+at, i)
			}
		}
	}
}

func TestCopy(t *testing.T) { eachWidth(t, func(int) { testCopy(t) }) }

func testCopy(t *testing.T) {
	b := testBytes(1<<16 + 64)
	for n := range 700 {
		for at := range 9 {
			compareCopy(t, 0, b[at:at+n], at*7%9)
		}
		compareCopy(t, rand.Uint32(), b[n%64:][:n], n*13%64)
	}
	for at := range 64 {
		n := rand.IntN(len(b) - at)
		compareCopy(t, rand.Uint32(), b[at:at+n], rand.IntN(64))
	}
}

func TestCopyRefuses(t *testing.T) {
	b := make([]byte, 300)
	for _, c := range []struct {
		dst, src []byte
		ok       bool
	}{
		{b[:100], b[100:200], true}, {b[200:], b[100:200], true}, {nil, nil, true}, {b[:0], b[:0], true},
		{b[:100], b[:100], true}, {b[:100], b[99:199], false}, {b[99:199], b[:100], false},
		{b[:100], b[100:199], false},
	} {
		for _, k := range kinds {
			func() {
				defer func() {
					if r := recover(); (r == nil) != c.ok {
						t.Errorf("%s: %d to %d bytes: %v", k.name, len(c.src), len(c.dst), r)
					}
				}()
				k.copy(0, c.dst, c.src)
			}()
		}
	}
}

func FuzzCopy(f *testing.F) {
	for _, n := range []int{0, 1, 63, 64, 65, 255, 256, 1440} {
		f.Add(uint32(n), testBytes(n), uint8(n))
	}
	f.Fuzz(func(t *testing.T, state uint32, data []byte, at uint8) {
		eachWidth(t, func(int) { compareCopy(t, state, data, int(at)) })
	})
}

func FuzzCRC(f *testing.F) {
	for _, n := range []int{0, 1, 63, 64, 65, 255, 256, 1040, 1240, 4112} {
		f.Add(uint32(n), testBytes(n), uint16(n/3))
	}
	f.Fuzz(func(t *testing.T, state uint32, data []byte, split uint16) {
		eachWidth(t, func(int) {
			checkCRC(t, state, data)
			i := min(int(split), len(data))
			for _, k := range kinds {
				if got, want := k.update(k.update(state, data[:i]), data[i:]), k.update(state, data); got != want {
					t.Fatalf("%s: %d bytes split at %d: %08x, want %08x", k.name, len(data), i, got, want)
				}
			}
		})
	})
}

// TestVariant holds the CRC of 16 bits against its polynomial, bit by bit, in every width.
func TestVariant(t *testing.T) {
	const poly = 0xd008 // x^16 + x^12 + x^3 + x + 1, the lowest power in the highest bit
	for _, n := range []int{63, 64, 65, 127, 128, 129, 255, 256, 257, 320, 511, 512, 1100, 4220} {
		data := testBytes(n)
		want := ^uint16(0)
		for _, v := range data {
			want ^= uint16(v)
			for range 8 {
				want = want>>1 ^ poly&-(want&1)
			}
		}
		eachWidth(t, func(bits int) {
			if got, ok := Variant(data); ok && got != ^want {
				t.Errorf("%d bytes, %d bits at once: %04x, want %04x", n, bits, got, ^want)
			} else if ok && bits == 128 {
				t.Error("a processor without folding folds")
			}
		})
	}
}

func BenchmarkCRC(b *testing.B) {
	data := testBytes(61920 + 12)[12:]
	for _, n := range []int{64, 80, 1024, 1040, 1440, 4096, 4112, 61920} {
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
			eachWidth(b, func(bits int) {
				bench(fmt.Sprint(bits), k.update)
				to := make([]byte, n+24)[24:]
				bench(fmt.Sprint("copied ", bits), func(s uint32, d []byte) uint32 { return k.copy(s, to, d) })
			})
		}
	}
}
