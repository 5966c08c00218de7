// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rdmatest_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// TestSlowSystemCall: time that stands still for seconds, in a system call, is no fault: a busy machine may need them.
func TestSlowSystemCall(t *testing.T) {
	testrun.SkipUnlessLong(t, "a system call takes five seconds")
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	time.AfterFunc(5*time.Second, func() { syscall.Write(pipe[1], []byte{1}) })
	rdmatest.Run(t, 1, func(*rdmatest.World) {
		var b [1]byte
		if n, err := syscall.Read(pipe[0], b[:]); n != 1 {
			t.Error(n, err)
		}
	})
}
