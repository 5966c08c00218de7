// SPDX-License-Identifier: Apache-2.0

package forkmark

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func marked(t *testing.T, c syscall.Conn) bool {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var tv *unix.Timeval
	var optErr error
	err = raw.Control(func(fd uintptr) { tv, optErr = unix.GetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_RCVTIMEO) })
	if err != nil || optErr != nil {
		t.Fatal(err, optErr)
	}
	return tv.Sec == seconds
}

// TestSetConn marks a listener, and so what it accepts.
func TestSetConn(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if marked(t, l) {
		t.Error("a socket has the mark by itself")
	}
	SetConn(l)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !marked(t, l) || !marked(t, a) {
		t.Errorf("marked: listener %v, accepted %v", marked(t, l), marked(t, a))
	}
}
