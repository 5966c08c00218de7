// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package sigstack

// Reserve makes the calling goroutine's stack so large that [Room] bytes are free below the caller. Unless the garbage
// collector shrinks stacks (GODEBUG=gcshrinkstackoff=1), they stay free for later calls by the same thread.
func Reserve()
