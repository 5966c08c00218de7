// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

import (
	"hash/crc32"
	"testing"
)

// powerX returns x^n mod P of the polynomial p, in the form of hash/crc32; the top bit is the coefficient of x^0.
func powerX(p uint32, n int) uint32 {
	v := uint32(1 << 31)
	for range n {
		if v&1 != 0 {
			v = v>>1 ^ p
		} else {
			v >>= 1
		}
	}
	return v
}

// quotient returns x^n / P for n up to 95; the top bit is the coefficient of x^0.
func quotient(p uint32, n int) (q uint64) {
	rest := uint32(1 << 31) // x^0, as the highest power comes first
	for i := n - 1; i >= 0; i-- {
		if rest&1 != 0 {
			q |= 1 << (63 - i)
			rest = rest>>1 ^ p
		} else {
			rest >>= 1
		}
	}
	return q
}

// The constants follow from the polynomial.
func TestConstants(t *testing.T) {
	for _, k := range []struct {
		p   uint32
		got *foldTable
	}{{crc32.IEEE, &ieee}, {crc32.Castagnoli, &castagnoli}} {
		want := foldTable{barrett: [2]uint64{quotient(k.p, 95), uint64(k.p)<<1 | 1}}
		for i := range 4 {
			want.lanes[2*i] = uint64(powerX(k.p, 128*(3-i)+95))
			want.lanes[2*i+1] = uint64(powerX(k.p, 128*(3-i)+31))
		}
		for i, by := range []*[2]uint64{&want.by64, &want.by128, &want.by192, &want.by256} {
			d := 8 * 64 * (i + 1)
			*by = [2]uint64{uint64(powerX(k.p, d+63)) << 32, uint64(powerX(k.p, d-1)) << 32}
		}
		for i := range want.positions {
			want.positions[i] = byte(i)
		}
		if *k.got != want {
			t.Errorf("polynomial %#x: got %#x, want %#x", k.p, *k.got, want)
		}
	}
}
