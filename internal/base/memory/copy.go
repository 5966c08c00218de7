// SPDX-License-Identifier: Apache-2.0

package memory

import "unsafe"

const (
	// longCopy is from where on Go's copy uses REP MOVSQ, on processors where that is fast, if the destination is
	// at a multiple of 16.
	longCopy = 2048
	// copyPiece is what Go copies through vector registers everywhere.
	copyPiece = 1024
)

// move is copy for slices of one length. REP MOVSQ has less than half of its rate where the source is at no multiple
// of 8, as payload behind headers is. So that is copied in pieces.
func move(dst, src []byte) {
	from, to := uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(unsafe.Pointer(unsafe.SliceData(dst)))
	if len(src) >= longCopy && from%wordBytes != 0 && to-from >= uintptr(len(src)) { // else Go copies from the end
		for len(src) > copyPiece {
			copy(dst[:copyPiece], src[:copyPiece])
			dst, src = dst[copyPiece:], src[copyPiece:]
		}
	}
	copy(dst, src)
}
