// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Both ends of a connection within this process are this process, and one that is closed has no other end.
func TestOf(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{a, b} {
		cred, err := Of(c.(*net.UnixConn))
		if err != nil || int(cred.Pid) != os.Getpid() || int(cred.Uid) != os.Geteuid() {
			t.Errorf("%+v, %v", cred, err)
		}
		c.Close()
		if cred, err := Of(c.(*net.UnixConn)); err == nil {
			t.Errorf("closed: %+v", cred)
		}
	}
}
