// SPDX-License-Identifier: Apache-2.0

package infiniband

import "sync/atomic"

// lossCount is how many packets the fabric of another process had lost when it was asked last.
type lossCount struct {
	last   atomic.Pointer[losses] // nil: not asked yet
	asking atomic.Bool
}

// Losses implements adapter. Before the first answer nothing is known to be lost.
func (a *remoteAdapter) Losses() (n uint64, known bool) {
	if l := a.last.Load(); l != nil {
		return l.Packets, l.Known
	}
	return 0, true
}

// RefreshLosses asks the fabric's process, and does not wait for the answer.
func (a *remoteAdapter) RefreshLosses() {
	if !a.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer a.asking.Store(false)
		switch got, err := a.call(request{Op: opLosses}); {
		case got.Losses != nil:
			a.last.Store(got.Losses)
		case err != nil && got.Error != "":
			a.last.Store(&losses{}) // a process of an earlier version
		}
	}()
}

// Dropped tells the fabric's process.
func (a *remoteAdapter) Dropped(n uint64) { a.send(request{Op: opDropped, Packets: n}) }
