// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// running is a command that has said that it is ready.
type running struct {
	interrupt, kill func()
	wait            func() result
}

// startNow starts a command that does not say when it is ready.
func startNow(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cmd, end := command(ctx, t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return newRunning(t, cmd, func() result {
		defer cancel()
		return end(t, cmd.Wait())
	})
}

// newRunning is for a command that has been started. It is killed with the test.
func newRunning(t *testing.T, cmd *exec.Cmd, wait func() result) *running {
	r := &running{interrupt: func() { cmd.Process.Signal(os.Interrupt) }, kill: func() { cmd.Process.Kill() },
		wait: sync.OnceValue(wait)}
	t.Cleanup(func() { r.kill(); r.wait() })
	return r
}

// startReady starts a command and returns once it has written a line with text.
func startReady(t *testing.T, text string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cmd, end := command(ctx, t, args...)
	all := cmd.Stdout.(*bytes.Buffer)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan bool, 1), make(chan error, 1)
	go func() { // all the time, so that the command never waits for its reader
		for lines, said := bufio.NewReader(out), false; ; {
			line, err := lines.ReadString('\n')
			all.WriteString(line)
			if now := strings.Contains(line, text); !said && (now || err != nil) {
				ready <- now
				said = true
			}
			if err != nil {
				ended <- cmd.Wait()
				return
			}
		}
	}()
	r := newRunning(t, cmd, func() result {
		defer cancel()
		return end(t, <-ended)
	})
	if !<-ready {
		t.Fatalf("ramjet %v does not say %q: %+v", args, text, r.wait())
	}
	return r
}

// host is the address of a device.
func host(device string) string { return strings.TrimPrefix(device, "roce:") }

func TestPing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, pings string
		n           int
	}{
		{"26", "3", 3}, {"64", "70", 70}, {"4097", "5", 5}, {"65535", "10", 10},
	} {
		t.Run(c.size, func(t *testing.T) {
			t.Parallel()
			at := testDevice(t)
			pcap := filepath.Join(t.TempDir(), "server.pcapng")
			server := startReady(t, "waiting for clients", "ping", "-s", "-v", "-V", "-d", at, "--pcap", pcap)
			client := ramjetCmd(t, "ping", "-c", "-d", testDevice(t), "-a", host(at), "-S", c.size, "-C", c.pings, "-v",
				"-V")
			client.wantSuccess(t)
			s := server.wait()
			s.wantSuccess(t)
			figures := regexp.MustCompile(`(?m)^--- .* ping statistics ---\n` + c.pings +
				` pings, [\d,]+ bytes each way, every byte compared, [\d.]+ (m|µ)?s$`)
			for _, r := range []result{client, s} {
				if !figures.MatchString(r.stdout) || strings.Count(r.stdout, "ping data: rdma-ping-") != c.n {
					t.Errorf("%s", r.stdout)
				}
			}
			if !regexp.MustCompile(`(?m)^round trip .*: [\d.]+/[\d.]+/[\d.]+/[\d.]+/[\d.]+ µs\n\z`).MatchString(
				client.stdout) {
				t.Errorf("%s", client.stdout)
			}
			if frames := verifyRecording(t, pcap); frames < 4*c.n {
				t.Errorf("%d frames recorded", frames)
			}
		})
	}
}

func TestPingPersistent(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	server := startReady(t, "waiting for clients", "ping", "-s", "-P", "-a", host(at))
	var wg sync.WaitGroup
	for range 3 {
		client := testDevice(t)
		wg.Go(func() { ramjetCmd(t, "ping", "-c", "-d", client, "-a", host(at), "-C", "20", "-V").wantSuccess(t) })
	}
	wg.Wait()
	server.interrupt()
	r := server.wait()
	r.wantSuccess(t)
	if n := strings.Count(r.stdout, "20 pings, 1,280 bytes each way"); n != 3 {
		t.Errorf("%s", r.stdout)
	}
}

// Interrupted, both sides say how far they came.
func TestPingInterrupted(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	server := startReady(t, "waiting for clients", "ping", "-s", "-d", at)
	client := startReady(t, "ping data: rdma-ping-3:", "ping", "-c", "-v", "-d", testDevice(t), "-a", host(at))
	client.interrupt()
	for _, r := range []result{client.wait(), server.wait()} {
		r.wantSuccess(t)
		if !strings.Contains(r.stdout, "ping statistics") {
			t.Errorf("%s", r.stdout)
		}
	}
	waiting := startReady(t, "waiting for clients", "ping", "-s", "-d", at)
	waiting.interrupt()
	r := waiting.wait()
	r.stdout = ""
	r.wantError(t, cli.ExitInterrupted, "interrupted")
}

func TestPingErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		text string
	}{
		{"", "give --server (-s) to wait for a client, or --client (-c)"},
		{"-s -c", "[server client]"},
		{"-c", "give it with --addr"},
		{"-c -a 127.0.0.1 -P", "--persistent"},
		{"-c -a 127.0.0.1 -S 25", "--size 25: give 26 to 65535 bytes"},
		{"-c -a 127.0.0.1 -S 64K", "--size 65536"},
		{"-c -a 127.0.0.1 -C -1", "--count -1"},
		{"-c -a 127.0.0.1 -p 0", `"0" is not a port`},
		{"-s -a 203.0.113.77", "203.0.113.77 is not an address of this host"},
		{"-s more", `"more" is not a flag`},
		{"-c 192.0.2.1", "give the server's address with --addr"},
	} {
		t.Run(c.args, func(t *testing.T) {
			ramjetCmd(t, append([]string{"ping"}, strings.Fields(c.args)...)...).wantError(t, cli.ExitUsage, c.text)
		})
	}
	here := testDevice(t)
	ramjetCmd(t, "ping", "-s", "-d", here, "-a", "127.0.0.1").wantError(t, cli.ExitUsage,
		"127.0.0.1 is not an address of "+here)
	ramjetCmd(t, "ping", "-c", "-d", here, "-a", "::1").wantError(t, cli.ExitUsage, "::1")
	ramjetCmd(t, "ping", "-c", "-d", here, "-a", "no.such.host.invalid").wantError(t, cli.ExitUsage,
		"no.such.host.invalid")
	ramjetCmd(t, "ping", "-c", "-d", here, "-a", host(testDevice(t)), "--timeout", "300ms").wantError(t, cli.ExitFailed,
		":7174: ")

	at := testDevice(t)
	startReady(t, "waiting for clients", "ping", "-s", "-d", at)
	ramjetCmd(t, "ping", "-c", "-d", here, "-a", host(at), "-p", "7").wantError(t, cli.ExitFailed,
		"connection refused: no listener")
}

// A server notices a client that dies without a word, in the middle of a ping or between two.
func TestPingPeerKilled(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	server := startReady(t, "waiting for clients", "ping", "-s", "-d", at)
	client := startReady(t, "ping data: rdma-ping-3:", "ping", "-c", "-v", "-d", testDevice(t), "-a", host(at))
	client.kill()
	client.wait()
	r := server.wait()
	r.stdout = ""
	r.wantError(t, cli.ExitFailed, "does not answer any more")
}

// openDeviceOf opens a device in the test's own process.
func openDeviceOf(t *testing.T, name string) *verbs.Device {
	t.Helper()
	dev, err := ramjet.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}
