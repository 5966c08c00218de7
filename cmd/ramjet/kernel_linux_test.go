// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package main

import (
	"context"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Commands take "kernel:" for the only device of the kernel. Without one they say so.
func TestKernelNone(t *testing.T) {
	if devices, _ := os.ReadDir("/sys/class/infiniband"); len(devices) > 0 {
		t.Skip("this host has RDMA devices")
	}
	t.Setenv("RAMJET_LIBIBVERBS", "")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"devices kernel:", "demo -d kernel:", "ping -s -d kernel:", "ping -s -d kernel: -a 127.0.0.1",
		"ping -c -d kernel: -a 127.0.0.1", "pingpong rc -d kernel:", "pingpong rc -d kernel: 127.0.0.1",
		"pipe -d kernel: 127.0.0.1 7000", "pipe -d kernel: -l 127.0.0.1:7000", "pipe -d kernel: -l 7000",
		"serve -d kernel: " + dir, "cp -d kernel: " + file + " 127.0.0.1:", "cp -d kernel: 127.0.0.1: " + dir,
		"ls -d kernel: 127.0.0.1:", "bench registration -d kernel:", "bench notification -d kernel:",
		"bench notification -d kernel",
	} {
		r := ramjetCmd(t, strings.Fields(args)...)
		if r.status != cli.ExitUsage || !strings.Contains(r.stderr, "kernel") ||
			!strings.Contains(r.stderr, "rdma") && !strings.Contains(r.stderr, "RDMA") &&
				!strings.Contains(r.stderr, "libibverbs") {
			t.Errorf("%s: exit status %d: %s", args, r.status, r.stderr)
		}
	}
}

// On Ramjet's own libibverbs, whose devices no sysfs shows, "kernel:" is the only one.
func TestKernelOwn(t *testing.T) {
	if os.Getenv("RAMJET_LIBIBVERBS") == "" {
		t.Skip("RAMJET_LIBIBVERBS does not name Ramjet's libibverbs.so.1, as cabi/build.sh builds it")
	}
	a, b := testDevice(t), testDevice(t)
	as := func(device string) { t.Setenv("RAMJET_DEVICES", device) }
	t.Run("ping", func(t *testing.T) {
		as(a)
		server := startReady(t, "waiting for clients", "ping", "-s", "-V", "-d", "kernel:")
		as(b)
		ramjetCmd(t, "ping", "-c", "-d", "kernel:", "-a", host(a), "-C", "5", "-V").wantSuccess(t)
		server.wait().wantSuccess(t)
	})
	t.Run("cp", func(t *testing.T) {
		dir, src := t.TempDir(), filepath.Join(t.TempDir(), "file")
		writeRandom(t, src, 1<<20+5)
		as(a)
		startReady(t, ": serving ", "serve", "-d", "kernel:", dir)
		as(b)
		ramjetCmd(t, "cp", "-d", "kernel:", src, host(a)+":").wantSuccess(t)
		want, _ := os.ReadFile(src)
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != string(want) {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
	for _, measure := range []string{"write lat", "send bw -q 3", "read bw", "atomic lat"} {
		t.Run("perf "+measure, func(t *testing.T) {
			port := freePort(t)
			args := append([]string{"perf"}, strings.Fields(measure+" -n 20 -d kernel: -p "+port)...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			as(a)
			server, ended := command(ctx, t, args...)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			as(b)
			r := ramjetCmd(t, append(args, host(a))...)
			for strings.Contains(r.stderr, "connection refused") && ctx.Err() == nil { // the server is not ready
				time.Sleep(10 * time.Millisecond)
				r = ramjetCmd(t, append(args, host(a))...)
			}
			r.wantSuccess(t)
			ended(t, server.Wait()).wantSuccess(t)
		})
	}
}
