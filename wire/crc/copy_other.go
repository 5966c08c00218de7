// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 || purego

package crc

// copyCastagnoli is CopyCastagnoli after its checks.
func copyCastagnoli(state uint32, dst, src []byte) uint32 {
	copy(dst, src)
	return UpdateCastagnoli(state, dst)
}

// copyIEEE is CopyIEEE after its checks.
func copyIEEE(state uint32, dst, src []byte) uint32 {
	copy(dst, src)
	return UpdateIEEE(state, dst)
}
