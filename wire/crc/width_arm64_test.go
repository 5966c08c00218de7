// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

import "testing"

// eachWidth calls do with hash/crc32 in force and then, where the processor has it, with the fold.
func eachWidth(tb testing.TB, do func(bits int)) {
	was := processor
	defer func() {
		if tb.Failed() {
			tb.Logf("with PMULL: %v", processor)
		}
		processor = was
	}()
	processor = false
	do(0)
	if was {
		processor = true
		do(128)
	}
}
