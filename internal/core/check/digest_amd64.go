// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package check

import "golang.org/x/sys/cpu"

// blocksDigest returns a digest of whole blocks, of which there is at least one.
func blocksDigest(b []byte) uint64 {
	if cpu.X86.HasAES {
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
