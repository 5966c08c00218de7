// SPDX-License-Identifier: Apache-2.0

package mapwatch

import "os"

// Pages returns the range of whole pages that a range touches.
func Pages(from, to uintptr) (first, end uintptr) {
	page := uintptr(os.Getpagesize())
	return from &^ (page - 1), (to + page - 1) &^ (page - 1)
}
