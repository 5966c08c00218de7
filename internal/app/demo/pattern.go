// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/binary"
	"fmt"
)

// pattern is a sequence of 64-bit words that both processes can generate from its seed.
type pattern uint64

// word returns word i (the finalizer of SplitMix64 over a counter).
func (p pattern) word(i int) uint64 {
	z := uint64(p) + uint64(i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fill writes the pattern; len(b) is a multiple of 8.
func (p pattern) fill(b []byte) {
	for i := range len(b) / 8 {
		binary.LittleEndian.PutUint64(b[8*i:], p.word(i))
	}
}

// check compares every byte of b with the pattern and names the first that differs.
func (p pattern) check(b []byte) error {
	for i := range len(b) / 8 {
		if got, want := binary.LittleEndian.Uint64(b[8*i:]), p.word(i); got != want {
			off := 0
			for byte(got>>(8*off)) == byte(want>>(8*off)) {
				off++
			}
			return fmt.Errorf("byte %d of %d is %#02x instead of %#02x", 8*i+off, len(b), byte(got>>(8*off)),
				byte(want>>(8*off)))
		}
	}
	return nil
}
