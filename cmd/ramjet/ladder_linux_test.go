// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// The last packets of a process that runs are drawn, with the faults that struck them.
func TestLadderProcess(t *testing.T) {
	t.Parallel()
	a, b := rdmatest.Pair(t)
	server, client := rdmatest.Conns(t, a, b)
	if err := ramjet.SetFaults(b, "delay 1ms sent", nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	talked := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if client.Send(t.Context(), []byte("x")) != nil {
				break
			}
			m, err := server.Recv(t.Context())
			if err != nil {
				break
			}
			m.Release()
		}
		talked <- ctx.Err()
	}()
	pid, qp := fmt.Sprint(os.Getpid()), fmt.Sprint(client.QP().Num())
	var r result
	until := time.Now().Add(patience)
	for long := 200 * time.Millisecond; ; long *= 2 { // a message may take seconds on a busy machine
		r = ramjetCmd(t, "ladder", pid, "--qp", qp, "--for", long.String())
		if strings.Contains(r.stdout, "injected: delay") {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", r)
		}
	}
	r.wantSuccess(t)
	if !strings.Contains(r.stdout, "injected faults") || !strings.Contains(r.stdout, "Send Only") {
		t.Error(r.stdout)
	}
	for text, args := range map[string][]string{
		"the process has no queue pair 0":      {pid, "--qp", "0"},
		`--qp "x": give a queue pair's number`: {pid, "--qp", "x"},
		"--for is for the id of a process":     {lossCapture, "--for", "1s"},
	} {
		ramjetCmd(t, append([]string{"ladder"}, args...)...).wantError(t, cli.ExitUsage, text)
	}
	stop()
	if <-talked == nil {
		t.Error("the connection has ended")
	}
}
