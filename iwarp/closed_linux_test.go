// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClosedAfterNetwork closes links of a closed network. The numbers of their descriptors belong to
// other descriptors by then, which stay open.
func TestClosedAfterNetwork(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:0")
	n, err := newNetwork(at.Addr(), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := n.Listen(at, 1)
	if err != nil {
		t.Fatal(err)
	}
	a.Own(a)
	l, err := n.Dial(at, a.Addr(), 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Own(l)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{a.(*acceptor).fd, l.(*link).fd} {
		other, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, fd) // has the number, unless it is in use again already
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(other)
	}
	a.Close()
	l.Close(true)
	for _, fd := range []int{a.(*acceptor).fd, l.(*link).fd} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Errorf("another's descriptor was closed: %v", err)
		}
	}
}
