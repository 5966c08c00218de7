// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/democmd"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startDemo starts the demo and returns once its second process runs.
func startDemo(t *testing.T) (cmd *exec.Cmd, child int, wait func() result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd, end := command(ctx, t, "demo")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait = func() result { t.Helper(); return end(t, cmd.Wait()) }
	for ctx.Err() == nil {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
		for _, task := range tasks {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", cmd.Process.Pid, task.Name()))
			for f := range strings.FieldsSeq(string(text)) {
				line, _ := os.ReadFile("/proc/" + f + "/cmdline")
				if child, err := strconv.Atoi(f); err == nil && strings.Contains(string(line), democmd.PeerName) {
					return cmd, child, wait
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the demo has no second process")
	return nil, 0, nil
}

// wantGone fails the test unless a process ends.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || strings.Contains(string(status), "\nState:\tZ") {
			return
		}
	}
	t.Errorf("process %d is left over", pid)
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	cmd, child, wait := startDemo(t)
	cmd.Process.Signal(os.Interrupt)
	syscall.Kill(child, syscall.SIGINT) // as a terminal sends it to both
	wait().wantError(t, cli.ExitInterrupted, "interrupted")
	wantGone(t, child)
}

func TestDemoKilled(t *testing.T) {
	t.Parallel()
	cmd, child, wait := startDemo(t)
	cmd.Process.Kill()
	wait()
	wantGone(t, child)
}

func TestDemoPeerKilled(t *testing.T) {
	t.Parallel()
	_, child, wait := startDemo(t)
	syscall.Kill(child, syscall.SIGKILL)
	wait().wantError(t, cli.ExitFailed, "the other process has ended: signal: killed")
}

func TestPingpongInterrupted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"-e"}} {
		server := startReady(t, "local address",
			append([]string{"pingpong", "rc", "-d", testDevice(t), "-p", freePort(t)}, args...)...)
		server.interrupt()
		r := server.wait()
		r.stdout = ""
		r.wantError(t, cli.ExitInterrupted, "interrupted")
	}
}
