// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"net"
	"testing"
)

// Where the port is in use, the error says what to do.
func TestDashPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ramjetCmd(t, "dash", "--listen", l.Addr().String()).wantError(t, cli.ExitFailed, "choose another port")
}
