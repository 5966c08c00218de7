// SPDX-License-Identifier: Apache-2.0

package memory

import "testing"

func BenchmarkCopy(b *testing.B) {
	for _, n := range []int{8, 64, 4096} {
		dst, src := make([]byte, n), make([]byte, n)
		b.Run("guarded", func(b *testing.B) {
			for b.Loop() {
				Copy(dst, src)
			}
		})
		b.Run("plain", func(b *testing.B) {
			for b.Loop() {
				copy(dst, src)
			}
		})
		b.Run("present", func(b *testing.B) {
			for b.Loop() {
				present(src)
			}
		})
	}
}
