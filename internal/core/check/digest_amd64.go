// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package check

import "golang.org/x/sys/cpu"

// wide reports whether the processor has rounds of AES of 32 bytes, in the VEX encoding.
var wide = func() bool {
	const vaes = 1 << 9
	return cpu.X86.HasAES && cpu.X86.HasAVX2 && extended()&vaes != 0
}()

// extended returns ECX of CPUID's leaf 7, which processors with AVX2 have.
func extended() uint32

// blocksDigest returns a digest of whole blocks, of which there is at least one.
func blocksDigest(b []byte) uint64 {
	switch {
	case wide:
		return wideAESDigest(b)
	case cpu.X86.HasAES:
		return aesDigest(b)
	}
	return crcDigest(b)
}

// aesDigest is a round of AES for each 16 bytes, which become its key, in eight chains. A round takes different states
// to different ones. So a change of 16 bytes always changes its chain, unless a later change happens to undo that. It
// takes a third of the time of a CRC.
//
//go:noescape
func aesDigest(b []byte) uint64

// wideAESDigest is aesDigest in sixteen chains, two in each register.
//
//go:noescape
func wideAESDigest(b []byte) uint64
