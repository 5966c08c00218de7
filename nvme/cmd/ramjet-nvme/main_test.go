// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
)

// patience bounds the waits of tests.
const patience = time.Minute

// run runs a command line, and returns its output.
func run(ctx context.Context, out io.Writer, args []string) error {
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(out)
	c.SetErr(out)
	return c.ExecuteContext(ctx)
}

// shown returns the command lines of the page, without the command's name.
func shown(t *testing.T) (lines [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/storage.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if args, ok := strings.CutPrefix(line, "ramjet-nvme "); ok {
			lines = append(lines, strings.Fields(args))
		}
	}
	if len(lines) < 6 {
		t.Fatal("the page shows", lines)
	}
	return lines
}

// unused returns an address of 127.121.0.0/16 whose third byte is from a number on, and that no other process uses now.
func unused(t *testing.T, from int) string {
	t.Helper()
	for n := os.Getpid(); ; n++ {
		address := fmt.Sprintf("127.121.%d.%d", n>>7&127+from, n&127+1)
		dev, err := ramjet.Open("roce:" + address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
}

// The commands that docs/storage.md shows do what it says.
func TestShown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	addresses := strings.NewReplacer("192.0.2.7", unused(t, 128), "192.0.2.9", unused(t, 0))
	lines := shown(t)
	t.Chdir(t.TempDir())
	image := bytes.Repeat([]byte("ramjet\n"), 300_000)
	for name, b := range map[string][]byte{"disk.img": make([]byte, 1<<20), "image": image} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range lines {
		for i := range args {
			args[i] = addresses.Replace(args[i])
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	served, out := make(chan error, 1), &output{says: make(chan string, 100)}
	go func() { served <- run(ctx, out, lines[0]) }()
	for late := time.After(patience); ; {
		select {
		case text := <-out.says:
			if !strings.Contains(text, "serving nqn.") {
				continue
			}
		case err := <-served:
			t.Fatal("serve has ended:", err)
		case <-late:
			t.Fatal("serve does not begin")
		}
		break
	}
	want := map[string]string{"discover": defaultNQN, "list": "64 MiB", "bench": "operations of 4.0 KiB, 16 in flight"}
	for _, args := range lines[1:] {
		var printed bytes.Buffer
		within, cancel := context.WithTimeout(ctx, patience)
		if err := run(within, &printed, args); err != nil || !strings.Contains(printed.String(), want[args[0]]) {
			t.Errorf("%v: %v, %s", args, err, &printed)
		}
		cancel()
	}
	if b, err := os.ReadFile("copy"); err != nil || !bytes.Equal(b, image[:1<<20]) {
		t.Errorf("what was read has %d bytes, or others: %v", len(b), err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// output hands on the text that is written.
type output struct{ says chan string }

func (o *output) Write(b []byte) (int, error) {
	o.says <- string(b)
	return len(b), nil
}

// exampleSecret is the example of the specification.
const exampleSecret = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"

// Host and target prove to each other that they have the secrets that gen-dhchap-key has drawn.
func TestSecrets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	draw := func() string {
		var b bytes.Buffer
		if err := run(t.Context(), &b, []string{"gen-dhchap-key", "--hmac", "2", "--key-length", "48"}); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	const nqn = "nqn.2026-01.org.example:host"
	here, there, secret, ctrl := unused(t, 128), unused(t, 0), draw(), draw()
	ctx, stop := context.WithCancel(t.Context())
	served, out := make(chan error, 1), &output{says: make(chan string, 100)}
	go func() {
		served <- run(ctx, out, []string{"serve", "-d", "roce:" + there, "--dhchap-secret", nqn + "=" + secret,
			"--dhchap-ctrl-secret", nqn + "=" + ctrl, "--dhchap-hash", "sha512", "--dhchap-dhgroup", "ffdhe2048",
			"memory:1MiB"})
	}()
	for late := time.After(patience); ; {
		select {
		case text := <-out.says:
			if !strings.Contains(text, "serving nqn.") {
				continue
			}
		case err := <-served:
			t.Fatal("serve has ended:", err)
		case <-late:
			t.Fatal("serve does not begin")
		}
		break
	}
	for _, c := range []struct {
		flags []string
		says  string
	}{{[]string{"--dhchap-secret", secret, "--dhchap-ctrl-secret", ctrl}, ""},
		{[]string{"--dhchap-secret", ctrl}, "refused: authentication failed"},
		{[]string{"--dhchap-secret", secret, "--dhchap-ctrl-secret", secret}, "authentication failed"},
		{nil, "authentication"}} {
		var b bytes.Buffer
		within, cancel := context.WithTimeout(ctx, patience)
		err := run(within, &b, append([]string{"list", "-d", "roce:" + here, "--host-nqn", nqn, there, defaultNQN},
			c.flags...))
		cancel()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// end runs a command line, and returns the exit status and the last line of the command.
func end(ctx context.Context, line string) (status int, says string) {
	c := newCommand()
	c.SetArgs(strings.Fields(line))
	c.SetOut(io.Discard)
	at, err := c.ExecuteContextC(ctx)
	var to bytes.Buffer
	return report(&to, at, err), to.String()
}

// Wrong command lines are refused in words, with the status of usage errors; files that cannot be served are failures.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		line, says string
		status     int
	}{
		{"serve -d shm:127.0.0.1 memory:1MiB", "--any-host", 2},
		{"serve -d shm:127.0.0.1 --any-host --host nqn.host memory:1MiB", "say who may connect", 2},
		{"serve -d shm:127.0.0.1 --any-host memory:much", "bytes", 2},
		{"serve -d shm:127.0.0.1 --any-host /no/such/file", "no such file", 1},
		{"serve -d shm:127.0.0.1 --any-host memory:100B", "whole blocks", 2},
		{"serve -d shm:127.0.0.1 --any-host memory:1TiB", "at most 64 GiB", 2},
		{"serve -d shm:127.0.0.1 --any-host /", "/ is a directory", 1},
		{"serve -d shm:127.0.0.1 --any-host " + os.DevNull, "is empty", 1},
		{"serve -d shm:127.0.0.1 --any-host --nqn disk memory:1MiB", "NQN", 2},
		{"serve -d shm:127.0.0.1", "no disk: name files", 2},
		{"serve -d shm:127.0.0.1 --any-host --list /no/such/list", "no such file", 1},
		{"serve -d shm:127.0.0.1 --dhchap-secret nqn.host memory:1MiB", "NQN=DHHC-1", 2},
		{"serve -d shm:127.0.0.1 --dhchap-secret nqn.host=DHHC-1:00:?: memory:1MiB", "base64", 2},
		{"serve -d shm:127.0.0.1 --dhchap-hash md5 memory:1MiB", "sha256", 2},
		{"serve -d shm:127.0.0.1 --dhchap-dhgroup ffdhe1024 memory:1MiB", "ffdhe2048", 2},
		{"serve -d shm:127.0.0.1 --dhchap-ctrl-secret nqn.host=" + exampleSecret + " memory:1MiB",
			"no --dhchap-secret", 2},
		{"serve -d shm:127.0.0.1 --any-host --dhchap-secret nqn.host=" + exampleSecret + " memory:1MiB", "say who may connect", 2},
		{"list -d shm:127.0.0.1 --dhchap-secret " + exampleSecret + " 127.0.0.1 nqn.x", "host-nqn", 2},
		{"list -d shm:127.0.0.1 --dhchap-ctrl-secret " + exampleSecret + " 127.0.0.1 nqn.x", "--dhchap-secret", 2},
		{"list -d shm:127.0.0.1 --host-nqn y 127.0.0.1 nqn.x", "--host-nqn", 2},
		{"list -d shm:127.0.0.1 127.0.0.1 x", "NQN", 2},
		{"list -d shn:127.0.0.1 127.0.0.1 nqn.x", "did you mean shm:127.0.0.1?", 2},
		{"discover -d shm:127.0.0.1 127.0.0.1:port", "the port is a number", 2},
		{"serve -d shm:127.0.0.1 --any-host --block-size 1000 memory:1MiB", "--block-size 1000", 2},
		{"serve -d shm:127.0.0.1 --any-host --refer host memory:1MiB", "--refer host", 2},
		{"serve -d shm:127.0.0.1 --any-host --listen 4420 memory:1MiB", "4420", 2},
		{"read -d shm:127.0.0.1 127.0.0.1 nqn.x --length -1", "--length -1", 2},
		{"read -d shm:127.0.0.1 127.0.0.1 nqn.x --namespace 0", "numbers begin at 1", 2},
		{"read -d shm:127.0.0.1 127.0.0.1 nqn.x --iopolicy best", "round-robin", 2},
		{"read -d shm:127.0.0.1 127.0.0.1 nqn.x --reconnect-delay -1s", "not negative", 2},
		{"write -d shm:127.0.0.1 127.0.0.1 nqn.x /no/such/file", "no such file", 1},
		{"write -d shm:127.0.0.1 127.0.0.1 nqn.x /", "/ is a directory", 1},
		{"list -d shm:127.0.0.1 --host-nqn nqn.y --dhchap-secret DHHC-1:00: 127.0.0.1 nqn.x", "bytes", 2},
		{"serve -d shm:127.0.0.1 --any-host --ana-state shm:127.0.0.1=good memory:1MiB", "optimized", 2},
		{"serve -d shm:127.0.0.1 --any-host --ana-state shm:127.0.0.2=optimized memory:1MiB", "a device of -d", 2},
		{"serve --any-host memory:1MiB", "device", 2},
		{"gen-dhchap-key --hmac 4", "SHA-256", 2},
		{"gen-dhchap-key --key-length 33", "32, 48 or 64", 2},
		{"list 127.0.0.1 nqn.x", "device", 2},
		{"read -d shm:127.0.0.1 127.0.0.1 nqn.x --offset far", "--offset", 2},
		{"bench -d shm:127.0.0.1 127.0.0.1 nqn.x --depth 0", "--depth 0", 2},
		{"bench -d shm:127.0.0.1 127.0.0.1 nqn.x --size 0", "--size 0", 2},
	} {
		if status, says := end(t.Context(), c.line); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s: %d, %s", c.line, status, says)
		}
	}
}

// The exit status says whether the command line was wrong, the command has failed, or a signal has ended it.
func TestReport(t *testing.T) {
	ended, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx    context.Context
		line   string
		status int
		says   string
	}{
		{t.Context(), "gen-dhchap-key", 0, ""},
		{t.Context(), "bogus", 2, "unknown command"},
		{t.Context(), "list --bogus", 2, "`ramjet-nvme list --help` shows what it takes"},
		{t.Context(), "list -d shm:127.0.0.1", 2, "accepts 2 arg(s)"},
		{t.Context(), "list 127.0.0.1 nqn.x", 2, "device"},
		{t.Context(), "list -d shm:127.0.0.1 127.0.0.1:1 " + defaultNQN, 1, "no listener"},
		{ended, "list -d shm:127.0.0.1 127.0.0.1:1 " + defaultNQN, 130, "ramjet-nvme: interrupted\n"},
	} {
		if status, says := end(c.ctx, c.line); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s: %d, %q", c.line, status, says)
		}
	}
}
