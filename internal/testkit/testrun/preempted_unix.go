// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testrun

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// Preemptions returns a function that reports whether Go has taken the processor from a goroutine since it
// was called last, or may have. Go sends itself SIGURG for that, and passes it on. A goroutine in a system call that
// takes long loses the processor without a signal, and another thread runs the other goroutines: that takes the system
// a switch of threads.
func Preemptions(t *testing.T) func() bool {
	c, behind := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGURG)
	signal.Notify(behind, syscall.SIGWINCH)
	t.Cleanup(func() { signal.Stop(c); signal.Stop(behind) })
	var before threadUse
	return func() bool {
		moved := ownThread() != before
		defer func() { before = ownThread() }()
		// A goroutine of Go's passes signals on, lower numbers first: when it has passed on a later
		// one, it has passed on all before.
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		<-behind
		select {
		case <-c:
			return true
		default:
			return moved
		}
	}
}
