// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package ib

import "testing"

// powerX returns x^n mod P; the top bit is the coefficient of x^0.
func powerX(n int) uint32 {
	v := uint32(1 << 31)
	for range n {
		if v&1 != 0 {
			v = v>>1 ^ polyIEEE
		} else {
			v >>= 1
		}
	}
	return v
}

// quotient returns x^n / P for n up to 95; the top bit is the coefficient of x^0.
func quotient(n int) (q uint64) {
	rest := uint32(1 << 31) // x^0, as the highest power comes first
	for i := n - 1; i >= 0; i-- {
		if rest&1 != 0 {
			q |= 1 << (63 - i)
			rest = rest>>1 ^ polyIEEE
		} else {
			rest >>= 1
		}
	}
	return q
}

// The constants follow from the polynomial.
func TestCRCConstants(t *testing.T) {
	want := foldTable{barrett: [2]uint64{quotient(95), polyIEEE<<1 | 1}}
	for i := range 4 {
		want.lanes[2*i] = uint64(powerX(128*(3-i) + 95))
		want.lanes[2*i+1] = uint64(powerX(128*(3-i) + 31))
	}
	for i, by := range []*[2]uint64{&want.by64, &want.by128, &want.by192, &want.by256} {
		d := 8 * 64 * (i + 1)
		*by = [2]uint64{uint64(powerX(d+63)) << 32, uint64(powerX(d-1)) << 32}
	}
	for i := range want.positions {
		want.positions[i] = byte(i)
	}
	if crcConstants != want {
		t.Errorf("got %#x, want %#x", crcConstants, want)
	}
}
