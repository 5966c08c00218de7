// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

// TestUnwatched has a peer reset a link with data that the device does not read now: that does not
// keep the device awake, and a later read returns the data and the reset.
func TestUnwatched(t *testing.T) {
	peer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	to := peer.Addr().(*net.TCPAddr).AddrPort()
	net4, err := newNetwork(to.Addr(), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := net4.(*network)
	defer n.Close()
	dialed, err := n.Dial(netip.AddrPortFrom(to.Addr(), 0), to, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := dialed.(*link)
	l.Own(l)
	l.Watch(false, true)
	c, err := peer.Accept()
	if err != nil {
		t.Fatal(err)
	}
	l.Watch(false, false)
	c.Write([]byte("hello"))
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
	fds := []unix.PollFd{{Fd: int32(l.fd)}}
	for fds[0].Revents&unix.POLLHUP == 0 {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
	count := 0
	ready := func() int { return n.Ready(func(any, bool, bool) { count++ }) }
	for range 10 {
		ready()
	}
	if count > 1 {
		t.Errorf("reported %d times, and nobody watches", count)
	}
	if !l.Ended() {
		t.Error("the link was not ended")
	}
	l.Watch(true, false)
	if ready() != 1 {
		t.Error("not reported, and somebody watches")
	}
	var b [16]byte
	k, err := l.Read([][]byte{b[:]})
	if err == nil && string(b[:k]) == "hello" {
		_, err = l.Read([][]byte{b[:]})
	}
	if err == nil || errors.Is(err, softdev.ErrAgain) {
		t.Errorf("no end of the link: %v", err)
	}
}
