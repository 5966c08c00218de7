// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"syscall"
	"testing"
)

// A caller that has looked a socket up, which is closed before the caller waits, gets that state.
func TestPollClosed(t *testing.T) {
	for _, stream := range []bool{true, false} {
		fd, s, err := newRsock(syscall.AF_INET, stream)
		if err != nil {
			t.Fatal(err)
		}
		if _, last := rsocks.drop(fd); !last {
			t.Fatal("it has another number")
		}
		s.end()
		syscall.Close(fd)
		s.addWaker(-1)
		if s.poll(0, true) == 0 {
			t.Error("nobody will wake it")
		}
	}
}
