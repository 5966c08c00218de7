// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package memory

import "sync/atomic"

// Order keeps all accesses before it before the accesses after it, but for a store and a later load.
func Order() { Fence() }

// Fence keeps all accesses before it before all that follow.
func Fence() {
	var x uint32
	atomic.SwapUint32(&x, 1)
}
