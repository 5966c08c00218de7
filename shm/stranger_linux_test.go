// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// asOther runs f in a thread that is another user's, as the system sees it.
func asOther(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		const keep = ^uintptr(0)
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, 65534, keep)
		if errno != 0 {
			done <- errno
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestStranger has another user at a name that a device looks for, and at a device's listener: neither gets anything.
func TestStranger(t *testing.T) {
	made, err := newNetwork(netip.MustParseAddr("127.0.0.1"), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	n := made.(*network)
	from, to := netip.MustParseAddrPort("127.0.0.1:0"), netip.AddrPortFrom(loopback.Next(), 7)

	var listener *shmem.Listener
	asOther(t, func() { listener, err = n.place.Listen(to.String(), 8) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, err := n.DialNow(from, to); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("another user is there: %v", err)
	}
	l, err := n.Dial(from, to, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Connected(); !errors.Is(err, shmem.ErrOtherUser) || !strings.Contains(err.Error(), "65534") {
		t.Errorf("another user is there: %v", err)
	}

	acc, err := n.Listen(netip.MustParseAddrPort("127.0.0.1:0"), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer acc.Close()
	asOther(t, func() {
		if _, err := n.place.Connect(acc.Addr().String()); !errors.Is(err, shmem.ErrOtherUser) {
			t.Errorf("another user finds %v", err)
		}
	})
	if acc.(*acceptor).ready(func(any, bool, bool) {}); n.Arriving() {
		t.Error("another user is let in")
	}
}
