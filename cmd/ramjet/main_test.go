// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/democmd"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// program is the command, built once.
var program string

// programEnv has its path for processes that run a test again.
const programEnv = "RAMJET_TEST_PROGRAM"

func TestMain(m *testing.M) {
	os.Unsetenv("RAMJET_DEVICE") // which commands would take for --device
	testrun.Waits()
	if program = os.Getenv(programEnv); program != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "ramjet")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "ramjet")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
		os.Exit(1)
	}
	os.Setenv(programEnv, program)
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// result is how a run of the command ended.
type result struct {
	status         int
	stdout, stderr string
}

// patience bounds a run of the command, which slow machines take long for.
const patience = 3 * time.Minute

// command prepares a run of the command, with the variables that the test has set. A command that dials has as much
// time as it needs, unless args say otherwise.
func command(ctx context.Context, t *testing.T, args ...string) (cmd *exec.Cmd,
	end func(t *testing.T, err error) result) {
	dials := slices.IndexFunc(args, func(a string) bool { return a == "ping" || a == "cp" || a == "ls" || a == "pipe" })
	if dials >= 0 && !slices.Contains(args, "--timeout") {
		args = slices.Insert(slices.Clone(args), dials+1, "--timeout", patience.String())
	}
	var stdout, stderr bytes.Buffer
	cmd = exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(t), &stdout, &stderr
	cmd.WaitDelay = time.Minute
	return cmd, func(t *testing.T, err error) (r result) {
		t.Helper()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("ramjet %v: %v", args, err)
		}
		r.status, r.stdout, r.stderr = cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
		return r
	}
}

// environments are the variables that tests have set for their commands, by the name of the test.
var environments sync.Map

// setEnv sets a variable for the commands that a test and its subtests start, and not for those of tests beside it.
func setEnv(t *testing.T, key, value string) {
	before, _ := environments.Load(t.Name())
	list, _ := before.([]string)
	environments.Store(t.Name(), append(slices.Clip(list), key+"="+value))
	t.Cleanup(func() { environments.Delete(t.Name()) })
}

// environment returns the variables of a test's commands.
func environment(t *testing.T) []string {
	all := os.Environ()
	for i, c := range t.Name() + "/" {
		if c == '/' { // the name of the test, or of one that it is a part of
			list, _ := environments.Load(t.Name()[:i])
			of, _ := list.([]string)
			all = append(all, of...)
		}
	}
	return all
}

// ramjetCmd runs the command, and again while a process that it asks does not answer.
func ramjetCmd(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		cmd, end := command(ctx, t, args...)
		r := end(t, cmd.Run())
		// Commands that ask a process give up after seconds, in which a busy machine may not let it answer.
		busy := strings.Contains(r.stderr, "it is stopped, or busy") ||
			strings.Contains(r.stderr, "it is frozen, or many read it")
		if !busy || ctx.Err() != nil {
			return r
		}
	}
}

// wantSuccess fails the test unless the command succeeded.
func (r result) wantSuccess(t *testing.T) {
	t.Helper()
	if r.status != 0 {
		t.Fatalf("exit status %d\nstdout:\n%s\nstderr:\n%s", r.status, r.stdout, r.stderr)
	}
}

// wantError fails the test unless the command ended with a status and one line that has text.
func (r result) wantError(t *testing.T, status int, text string) {
	t.Helper()
	if r.status != status {
		t.Errorf("exit status %d, want %d", r.status, status)
	}
	if r.stdout != "" {
		t.Errorf("standard output: %q", r.stdout)
	}
	if strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		t.Errorf("want one line on standard error: %q", r.stderr)
	}
	if !strings.HasPrefix(r.stderr, "ramjet") || !strings.Contains(r.stderr, text) {
		t.Errorf("standard error %q does not say %q", r.stderr, text)
	}
}

// testDevice returns the name of a device that no other test uses.
func testDevice(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs more than one loopback address, which only Linux has from the start")
	}
	return "roce:" + loopback.Next().String()
}

// given are the ports that freePort has returned: a test's command may not listen yet when the next test asks.
var given sync.Map

// freePort returns a TCP port without a listener, below the ports that the system gives out.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10000 + rand.IntN(10000))
		if _, before := given.LoadOrStore(port, true); before {
			continue
		}
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		text string
	}{
		{"devcies", `unknown command "devcies": did you mean devices?`},
		{"nothing-like-it", "`ramjet --help` lists them"},
		{"help devcies", `unknown command "devcies"`},
		{"help pingpong rx", `did you mean rc`},
		{"completion bassh", `did you mean bash?`},
		{"devices --vrbose", "unknown flag: --vrbose"},
		{"devices nonsense", `"nonsense" is no device name`},
		{"devices nonsense:1", `no device kind "nonsense"`},
		{"devices roce:here", `"here" is no IP address`},
		{"devices roce:203.0.113.77", "203.0.113.77 is not an address of this host"},
		{"demo now", `"now" is one argument too many`},
		{"demo --pcap /nowhere/to/be/found", "--pcap"},
		{"pingpong rx", `did you mean rc`},
		{"pingpong rc -d roce:203.0.113.77", "203.0.113.77 is not an address of this host"},
		{"pingpong rc one two",
			"\"two\" is one argument too many: write `ramjet pingpong rc [HOST]`: `ramjet pingpong rc --help` shows"},
		{"serve", "`ramjet serve --help` shows"},
		{"ping", "give --server (-s) to wait for a client, or --client (-c)"},
		{"ping -c -a 127.0.0.1 --timeout 0", `"0" is not a time`},
		{"cp main.go 127.0.0.1: --timeout -5s", `"-5s" is not a time`},
		{"pingpong rc -p 70000", "70000"},
		{"pingpong rc -s 12q", `"12q" is not a size`},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			ramjetCmd(t, strings.Fields(c.args)...).wantError(t, cli.ExitUsage, c.text)
		})
	}
}

func TestUsageErrorsOfDevice(t *testing.T) {
	t.Parallel()
	name := testDevice(t)
	for _, c := range []struct {
		args string
		text string
	}{
		{"rc -m 1000", "--mtu 1000: give 256, 512, 1024, 2048 or 4096"},
		{"rc -s 0", "--size 0"},
		{"rc -n 0", "--iters 0"},
		{"rc -r 1", "--rx-depth 1"},
		{"rc -g 7", "--gid-idx 7: the GID table has no such row"},
		{"srq -q 300", "--num-qp 300"},
		{"ud -s 8192", "a datagram of this device has at most 4096 bytes"},
		{"ud -m 1024", "unknown shorthand flag: 'm'"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append([]string{"pingpong"}, strings.Fields(c.args)...)
			ramjetCmd(t, append(args, "-d", name)...).wantError(t, cli.ExitUsage, c.text)
		})
	}
}

// hold takes a device's port as a program does that does not share it.
func hold(t *testing.T, name string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(strings.TrimPrefix(name, "roce:")), Port: ib.UDPPort})
	if err != nil {
		t.Skip(err)
	}
	return c
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	name := testDevice(t)
	defer hold(t, name).Close()
	var both sync.WaitGroup // each asks for seconds whether the address is shared
	defer both.Wait()
	both.Go(func() { ramjetCmd(t, "pingpong", "rc", "-d", name).wantError(t, cli.ExitUsage, "UDP port 4791") })
	both.Go(func() { ramjetCmd(t, "devices", name).wantError(t, cli.ExitUsage, "is in use") })

	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ramjetCmd(t, "pingpong", "rc", "-d", testDevice(t), "-p", port).wantError(t, cli.ExitUsage,
		"TCP port "+port+" is in use")
}

func TestHelpAndCompletion(t *testing.T) {
	t.Parallel()
	for args, text := range map[string]string{
		"":                     "pingpong",
		"--help":               "devices",
		"--version":            "ramjet version ",
		"help demo":            "--pcap",
		"pingpong":             "ibv_rc_pingpong",
		"pingpong rc --help":   "--rx-depth",
		"completion bash":      "__complete",
		"completion zsh":       "compdef",
		"completion fish":      "complete",
		"__complete devi":      "devices",
		"__complete pingpong ": "srq",
	} {
		r := ramjetCmd(t, strings.Split(args, " ")...)
		if args == "" {
			r = ramjetCmd(t)
		}
		if r.status != 0 || !strings.Contains(r.stdout, text) {
			t.Errorf("ramjet %s: status %d, stdout %.300q, want %q in it, stderr %q", args, r.status, r.stdout, text,
				r.stderr)
		}
		if strings.Contains(r.stdout, democmd.PeerName) {
			t.Errorf("ramjet %s shows the hidden command", args)
		}
	}
}

// A command fails when its results do not get out.
func TestOutputLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range []string{"--help", "completion bash", "devices -v " + testDevice(t)} {
		cmd, end := command(t.Context(), t, strings.Fields(args)...)
		cmd.Stdout = full
		end(t, cmd.Run()).wantError(t, cli.ExitFailed, "no space left on device")
	}
}
