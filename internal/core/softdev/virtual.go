// SPDX-License-Identifier: Apache-2.0

package softdev

import "runtime"

// Virtual is implemented by a port or network under virtual time. Such time passes only while
// every goroutine waits, so a program that polls has to wait now and then. A run can be repeated
// only if nothing on the wire depends on where memory lies.
type Virtual interface {
	// Pause waits for a moment, in which others run and time passes. The device's lock is not held.
	Pause()
	// PollPause is called after a poll that found nothing. It pauses after many.
	PollPause()
	// AllocAddr returns the address for a region of so many bytes.
	AllocAddr(size int) uint64
	// RefuseRegion returns the error with which the region that is about to be registered is refused; nil: it
	// is not.
	RefuseRegion() error
}

// pace is how programs that poll let others run.
type pace struct {
	pause   func()
	virtual Virtual // nil: time is the system's
}

// setPace checks whether the port is a virtual one.
func (l *Lane) setPace(port PortState) {
	l.pace.pause = runtime.Gosched
	if v, ok := port.(Virtual); ok {
		l.pace.virtual, l.pace.pause = v, v.Pause
	}
}

// Yields reports whether polls that find nothing let others run.
func (c *CQ) Yields() bool { return c.dev.Lane.pace.virtual != nil }

// polledNothing returns n, the number of completions that a poll has found. If that is nothing, virtual time may pass.
func (l *Lane) polledNothing(n int) int {
	if n == 0 && l.pace.virtual != nil {
		l.pace.virtual.PollPause()
	}
	return n
}
