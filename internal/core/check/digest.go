// SPDX-License-Identifier: Apache-2.0

package check

import (
	"hash/maphash"
	"runtime/debug"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/wire/crc"
)

// sum returns a digest of memory; 0: it is not mapped.
func sum(b []byte) uint64 {
	v, ok := digest(b)
	if !ok {
		return 0
	}
	return max(v, 1)
}

var seed = maphash.MakeSeed()

// digestBlock is the length of a block.
const digestBlock = 128

// digest returns a digest of memory. None of the standard library's hashes is as fast as that of whole blocks. It has
// no Go code look at the memory, which devices write to meanwhile: that is no race of the program.
func digest(b []byte) (v uint64, ok bool) {
	defer memory.Recover(debug.SetPanicOnFault(true), &ok)
	whole := len(b) &^ (digestBlock - 1)
	if whole > 0 {
		v = blocksDigest(b[:whole])
	}
	if whole < len(b) {
		v += maphash.Bytes(seed, b[whole:])
	}
	return v, true
}

// crcDigest is that of a processor without rounds of AES.
func crcDigest(b []byte) uint64 { return uint64(crc.UpdateIEEE(^uint32(0), b)) }
