// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package regbench

// fresh takes memory of the Go heap, most of which was not touched if it is large.
func fresh(n int) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }

// Only Linux reports the pages in memory, and locked ones.
func present([]byte) int { return 0 }
func locked() int        { return 0 }
