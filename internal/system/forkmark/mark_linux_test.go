// SPDX-License-Identifier: Apache-2.0

package forkmark

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetConn(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		var tv *unix.Timeval
		var optErr error
		err := raw.Control(
			func(fd uintptr) { tv, optErr = unix.GetsockoptTimeval(int(fd), unix.SOL_SOCKET, unix.SO_RCVTIMEO) })
		if err != nil || optErr != nil {
			t.Fatal(err, optErr)
		}
		if (tv.Sec == seconds) != want {
			t.Errorf("marked: %v, want %v", !want, want)
		}
		SetConn(l)
	}
}
