// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/bits"
)

// idGenerator generates communication IDs and the high halves of transaction IDs. They do not let a
// peer predict the next. The IDs are a counter behind a keyed permutation, so that one recurs only
// after all others. The halves are a keyed function of a counter.
type idGenerator struct {
	block cipher.Block
	width int    // of an ID in bits
	ids   uint32 // number of IDs generated
	tids  uint64
}

func newIDGenerator(key [16]byte, width int) *idGenerator {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // a key of another length
	}
	return &idGenerator{block: block, width: width}
}

// prf is the keyed function of a purpose and a value.
func (n *idGenerator) prf(use byte, v uint64) uint32 {
	var b [aes.BlockSize]byte
	b[0] = use
	binary.BigEndian.PutUint64(b[8:], v)
	n.block.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint32(b[:])
}

// rounds is the number of rounds of the permutation, as in NIST's format-preserving encryption (SP
// 800-38G, FF1).
const rounds = 10

// id returns the next communication ID, which may be 0.
func (n *idGenerator) id() uint32 {
	n.ids++
	return n.permute(n.ids)
}

// permute is a Feistel network over numbers of width bits. If the width is odd, its halves differ
// in length.
func (n *idGenerator) permute(v uint32) uint32 {
	low := n.width / 2
	lowMask, highMask := uint32(1)<<low-1, uint32(1)<<(n.width-low)-1
	l, h := v&lowMask, v>>low&highMask
	for r := range byte(rounds) {
		if r%2 == 0 {
			h ^= n.prf(r, uint64(l)) & highMask
		} else {
			l ^= n.prf(r, uint64(h)) & lowMask
		}
	}
	return h<<low | l
}

// tid returns the high half of the next transaction ID.
func (n *idGenerator) tid() uint32 {
	n.tids++
	return n.prf(rounds, n.tids)
}

// freeBits is how many bits of an ID a mask leaves.
func freeBits(mask uint32) int { return bits.OnesCount32(^mask) }
