// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

// width is how many bits of a message the processor multiplies at once.
type width int

const (
	width128 width = 128 // hash/crc32
	width256 width = 256
	width512 width = 512
)

// cpuid executes CPUID with the given leaf and subleaf 0. xgetbv returns which registers the
// operating system saves, if cpuid has OSXSAVE.
func cpuid(leaf uint32) (a, b, c uint32)
func xgetbv() uint32

// processor is the greatest width that the processor supports and whose registers the operating
// system saves.
var processor = func() width {
	const (
		leaf1C = 1<<1 | 1<<27 // PCLMULQDQ, OSXSAVE

		leaf7B256 = 1 << 5      // AVX2
		leaf7C    = 1 << 10     // VPCLMULQDQ
		kept256   = 1<<1 | 1<<2 // SSE, AVX

		leaf7B512 = leaf7B256 | 1<<16 | 1<<30 // AVX512F, AVX512BW
		kept512   = kept256 | 0b111<<5        // the three states of AVX-512
	)
	if last, _, _ := cpuid(0); last < 7 {
		return width128
	}
	if _, _, c := cpuid(1); c&leaf1C != leaf1C {
		return width128
	}
	kept := xgetbv()
	_, b, c := cpuid(7)
	switch {
	case b&leaf7B512 == leaf7B512 && c&leaf7C == leaf7C && kept&kept512 == kept512:
		return width512
	case b&leaf7B256 == leaf7B256 && c&leaf7C == leaf7C && kept&kept256 == kept256:
		return width256
	}
	return width128
}()
