// SPDX-License-Identifier: Apache-2.0

package memory

// Order keeps all accesses before it before the accesses after it, but for a store and a later load.
func Order() { barrier() }

// Fence keeps all accesses before it before all that follow.
func Fence() { barrier() }

//go:noescape
func barrier()
