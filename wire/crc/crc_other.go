// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package crc

import "hash/crc32"

// UpdateIEEE is [crc32.Update] with the IEEE table.
func UpdateIEEE(state uint32, data []byte) uint32 {
	return crc32.Update(state, crc32.IEEETable, data)
}

// UpdateCastagnoli is [crc32.Update] with the Castagnoli table.
func UpdateCastagnoli(state uint32, data []byte) uint32 {
	return crc32.Update(state, castagnoliTable, data)
}
