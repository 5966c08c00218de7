// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package crc

import "testing"

// eachWidth calls do with every width that the processor has in force, hash/crc32 first.
func eachWidth(tb testing.TB, do func(bits int)) {
	was := processor
	defer func() {
		if tb.Failed() {
			tb.Logf("with %d bits at once", processor)
		}
		processor = was
	}()
	for _, processor = range []width{width128, width256, width512} {
		if processor <= was {
			do(int(processor))
		}
	}
}
