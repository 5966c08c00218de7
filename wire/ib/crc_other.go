// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 || purego

package ib

import "hash/crc32"

// crcUpdate is [crc32.Update] with the IEEE table.
func crcUpdate(state uint32, data []byte) uint32 {
	return crc32.Update(state, crc32.IEEETable, data)
}
