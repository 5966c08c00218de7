// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nowhere is the index of no interface.
const nowhere = 1<<31 - 7

// A device that finds its interface taken names the holder, however often it asks, and gets the interface when it has
// been released.
func TestClaimHolder(t *testing.T) {
	c, err := take(nowhere)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := take(nowhere); !errors.Is(err, syscall.EADDRINUSE) ||
			!strings.Contains(err.Error(), "in this process") {
			t.Errorf("taken again: %v", err)
		}
	}
	c.release()
	c.release()
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	const nobody = 65534
	taken := make(chan error)
	var theirs claim
	go func() {
		runtime.LockOSThread() // for good: the thread is another user's from here on
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		if errno != 0 {
			taken <- errno
			return
		}
		var err error
		theirs, err = take(nowhere)
		taken <- err
	}()
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	defer theirs.release()
	who := fmt.Sprintf("of user %d", nobody)
	if _, err := take(nowhere); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), who) {
		t.Errorf("taken by another user: %v", err)
	}
}
