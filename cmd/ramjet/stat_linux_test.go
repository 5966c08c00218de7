// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/statcmd"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// serving starts `ramjet serve` on a device of its own, until the test ends.
func serving(t *testing.T) (device, pid string) {
	t.Helper()
	device = "roce:" + loopback.Next().String()
	serve, end := command(t.Context(), t, "serve", "-d", device, t.TempDir())
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, serve.Wait()) }) // the test's context has ended then
	return device, fmt.Sprint(serve.Process.Pid)
}

// A process is shown while it runs, as a table and as JSON.
func TestStat(t *testing.T) {
	t.Parallel()
	device, pid := serving(t)
	var r result
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if r = ramjetCmd(t, "stat", "cm_id", pid); strings.Contains(r.stdout, "listening") {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", r)
		}
	}
	if !strings.Contains(r.stdout, device+"/1 pid "+pid+" comm ramjet") {
		t.Error(r.stdout)
	}
	r = ramjetCmd(t, "stat", "--json", pid)
	var all struct {
		cli.JSONHeader
		statcmd.JSON
	}
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		t.Fatal(err, r)
	}
	if len(all.Processes) != 1 || len(all.Processes[0].Devices) != 1 || all.Processes[0].Devices[0].Name != device ||
		all.Host == "" || all.Time.IsZero() {
		t.Errorf("%+v", all)
	}
	if !slices.Equal(all.JSONHeader.Devices, []string{device}) {
		t.Errorf("devices: %v", all.JSONHeader.Devices)
	}
	if r := ramjetCmd(t, "stat", "cm_id", pid, "1"); r.status != cli.ExitFailed ||
		!strings.Contains(r.stdout, "listening") || !strings.Contains(r.stderr, "process 1 has no") {
		t.Errorf("with another that is not there: %+v", r)
	}
	if r := ramjetCmd(t, "stat", "--watch", "1"); r.status != cli.ExitFailed ||
		!strings.Contains(r.stderr, "process 1 has no") {
		t.Errorf("watching what is not there: %+v", r)
	}
	address := strings.TrimPrefix(device, "roce:")
	for args, want := range map[string]string{"stat ": pid, "stat qp ": pid, "ping -c -a ": address, "pipe ": address,
		"ls ": address + ":", "cp 127.": address + ":"} {
		for until := time.Now().Add(patience); ; { // completion leaves out processes that do not answer soon
			r := ramjetCmd(t, append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(args, " ")...)...)
			if slices.Contains(strings.Split(r.stdout, "\n"), want) {
				break
			}
			if time.Now().After(until) {
				t.Errorf("%s: no %s in %q", args, want, r.stdout)
				break
			}
		}
	}
	if r := ramjetCmd(t, "stat", "1"); r.status != cli.ExitFailed ||
		!strings.Contains(r.stderr, "process 1 has no Ramjet device open") {
		t.Errorf("%+v", r)
	}
}

// Watching goes on until it is interrupted.
func TestStatWatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, end := command(ctx, t, "stat", "link", "--watch=1ms")
	out := &lines{want: 3, done: make(chan struct{})}
	watch.Stdout = out
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out.done:
	case <-time.After(patience):
		t.Error("it was not shown three times")
	}
	cancel()
	end(t, watch.Wait())
}

// lines counts the lines that were shown.
type lines struct {
	want int
	done chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	for range strings.Count(string(b), "every 1 ms") {
		if l.want--; l.want == 0 {
			close(l.done)
		}
	}
	return len(b), nil
}
