// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// A number whose socket's name is still taken, as by a child that has not yet executed its program, is passed over.
func TestNameTaken(t *testing.T) {
	s := &Server{name: fmt.Sprintf("ramjet-taken-%d", os.Getpid())}
	listen := func(format string, a ...any) {
		c, err := net.ListenUnixgram("unixgram", address(format, a...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	const client = 7
	listen("%s:in%d", s.name, client)
	listen("%s:out0", s.name)
	number, conn, err := s.dial(client)
	if err != nil || number != 1 {
		t.Fatalf("number %d, %v; want 1", number, err)
	}
	conn.Close()
	if _, _, err := s.dial(client + 1); err == nil {
		t.Error("a client that is not there is connected to")
	}
}
