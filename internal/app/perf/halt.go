// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"sync/atomic"
)

// Reasons to leave a loop, as bits of halter.halt.
const (
	timeUp   = 1 << iota // the configured duration is over
	peerDone             // the other side has sent everything
	failed               // the other side is gone, or nothing makes progress
)

// halter ends the loop of a side from other goroutines.
type halter struct {
	ctx   context.Context // ends a sleep
	wake  context.CancelFunc
	halt  atomic.Uint32 // reasons
	cause atomic.Pointer[error]
}

// fail ends the loop with an error.
func (h *halter) fail(err error) {
	h.cause.CompareAndSwap(nil, &err)
	h.halt.Or(failed)
	h.wake()
}

// failure returns the error given to fail.
func (h *halter) failure() error {
	if p := h.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// halted reports whether one of the reasons is set.
func (h *halter) halted(reasons uint32) bool { return h.halt.Load()&reasons != 0 }
