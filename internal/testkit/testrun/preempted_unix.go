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
// was called last. Go sends itself SIGURG for that, and passes it on.
func Preemptions(t *testing.T) func() bool {
	c, behind := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGURG)
	signal.Notify(behind, syscall.SIGWINCH)
	t.Cleanup(func() { signal.Stop(c); signal.Stop(behind) })
	return func() bool {
		// A goroutine of Go's passes signals on, those with lower numbers first: when it has passed
		// on one that comes later, it has all before.
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		<-behind
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}
