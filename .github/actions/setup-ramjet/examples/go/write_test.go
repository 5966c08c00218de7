// SPDX-License-Identifier: Apache-2.0

// Package write tests an RDMA program in Go, which needs no library, and starts one in C, which does.
package write

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Data that one side writes into the other's memory is there.
func TestWrite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, b := rdmatest.Pair(t)
	server, client := rdmatest.Conns(t, a, b)
	theirs := make([]byte, 64)
	mr, err := server.PD().RegMR(theirs, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := client.Pool().Get(64)
	if err != nil {
		t.Fatal(err)
	}
	n := copy(buf.Bytes(), "written by RDMA")
	if err := client.Write(ctx, buf.SGE(n), mr.Remote()); err != nil {
		t.Fatal(err)
	}
	if string(theirs[:n]) != "written by RDMA" {
		t.Errorf("%q", theirs)
	}
}

// A C program finds the device, and so do cgo bindings.
func TestDevices(t *testing.T) {
	if os.Getenv("RAMJET_LIBS") == "" {
		t.Skip("the action sets RAMJET_LIBS, and puts the command into PATH")
	}
	out, err := exec.Command("ramjet", "run", "-d", "roce:127.0.0.11", "--", "ibv_devices").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "roce0") {
		t.Errorf("%v: %s", err, out)
	}
}
