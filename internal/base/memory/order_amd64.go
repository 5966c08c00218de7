// SPDX-License-Identifier: Apache-2.0

package memory

import "sync/atomic"

// Order does nothing: the processor keeps this order, and so does the compiler. Stores that bypass it, as in long
// copies, are followed by an SFENCE of the runtime's.
func Order() {}

// Fence keeps all accesses before it before all that follow.
func Fence() {
	var x uint32
	atomic.SwapUint32(&x, 1)
}
