// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package programs runs unmodified C programs on Ramjet's libibverbs.so.1 and librdmacm.so.1.
// What it needs of Debian: gcc libc6-dev libibverbs-dev librdmacm-dev ibverbs-utils
// rdmacm-utils perftest python3-pyverbs. Programs that are not installed are skipped.
package programs

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The devices of the two sides.
const (
	serverAddr = "127.83.0.1"
	clientAddr = "127.83.0.2"
)

// libs builds the libraries once.
var libs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ramjet-cabi")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("../build.sh", dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := libs(); built && err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var built bool

// need skips the test where the libraries cannot be built or a program is missing.
func need(t *testing.T, programs ...string) (dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds C libraries")
	}
	probe := exec.Command("gcc", "-fsyntax-only", "-xc", "-")
	probe.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n")
	if err := probe.Run(); err != nil {
		t.Skip("gcc and the headers of libibverbs-dev and librdmacm-dev are needed")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	built = true
	dir, err := libs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// command prepares a program that sees one device.
func command(ctx context.Context, dir, addr string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "RAMJET_DEVICES=roce:"+addr)
	c.WaitDelay = time.Second
	return c
}

// side is a program that has been started.
type side struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan error
}

func start(t *testing.T, ctx context.Context, dir, addr string, args ...string) *side {
	t.Helper()
	s := &side{cmd: command(ctx, dir, addr, args...), done: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	return s
}

// pair is a program that has two sides. PORT and SERVER in the arguments stand for a free
// TCP port and the server's address.
type pair struct {
	server, client string
	endless        bool // the server never ends by itself
	want           string
}

// table heads what perftest prints.
const table = "#bytes"

var pairs = []pair{
	{server: "ibv_rc_pingpong -g 0 -c -p PORT", client: "ibv_rc_pingpong -g 0 -c -p PORT SERVER", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -e -p PORT", client: "ibv_rc_pingpong -g 0 -e -p PORT SERVER", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -t -p PORT", client: "ibv_rc_pingpong -g 0 -t -p PORT SERVER", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -N -p PORT", client: "ibv_rc_pingpong -g 0 -N -p PORT SERVER", want: "iters in"},
	{server: "ibv_uc_pingpong -g 0 -n 100 -p PORT", client: "ibv_uc_pingpong -g 0 -n 100 -p PORT SERVER", want: "iters in"},
	{server: "ibv_ud_pingpong -g 0 -n 100 -p PORT", client: "ibv_ud_pingpong -g 0 -n 100 -p PORT SERVER", want: "iters in"},
	{server: "ibv_srq_pingpong -g 0 -p PORT", client: "ibv_srq_pingpong -g 0 -p PORT SERVER", want: "iters in"},
	{server: "ibv_xsrq_pingpong -g 0 -p PORT", client: "ibv_xsrq_pingpong -g 0 -p PORT SERVER", want: "success"},

	{server: "ib_send_bw -n 100 -p PORT", client: "ib_send_bw -n 100 -p PORT SERVER", want: table},
	{server: "ib_write_bw -n 100 -p PORT", client: "ib_write_bw -n 100 -p PORT SERVER", want: table},
	{server: "ib_read_bw -n 100 -p PORT", client: "ib_read_bw -n 100 -p PORT SERVER", want: table},
	{server: "ib_atomic_bw -n 100 -p PORT", client: "ib_atomic_bw -n 100 -p PORT SERVER", want: table},
	{server: "ib_send_lat -n 100 -p PORT", client: "ib_send_lat -n 100 -p PORT SERVER", want: table},
	{server: "ib_write_lat -n 100 -p PORT", client: "ib_write_lat -n 100 -p PORT SERVER", want: table},
	{server: "ib_read_lat -n 100 -p PORT", client: "ib_read_lat -n 100 -p PORT SERVER", want: table},
	{server: "ib_atomic_lat -n 100 -p PORT", client: "ib_atomic_lat -n 100 -p PORT SERVER", want: table},
	{server: "ib_send_lat -e -n 100 -p PORT", client: "ib_send_lat -e -n 100 -p PORT SERVER", want: table},
	{server: "ib_send_lat -c UD -n 100 -p PORT", client: "ib_send_lat -c UD -n 100 -p PORT SERVER", want: table},
	{server: "ib_write_bw -c UC -n 100 -s 4096 -p PORT", client: "ib_write_bw -c UC -n 100 -s 4096 -p PORT SERVER", want: table},
	{server: "ib_send_bw -a -n 5 -p PORT", client: "ib_send_bw -a -n 5 -p PORT SERVER", want: "8388608"},
	{server: "ib_send_bw -R -n 100 -p PORT", client: "ib_send_bw -R -n 100 -p PORT SERVER", want: table},
	{server: "ib_read_lat -R -n 100 -p PORT", client: "ib_read_lat -R -n 100 -p PORT SERVER", want: table},

	{server: "rping -s -a SERVER -C 20 -v -p PORT", client: "rping -c -a SERVER -C 20 -v -p PORT", want: "rdma-ping-19"},
	{server: "ucmatose -b SERVER -p PORT", client: "ucmatose -s SERVER -p PORT", want: "return status 0"},
	{server: "udaddy -b SERVER", client: "udaddy -s SERVER", want: "return status 0"},
	{server: "rdma_server -p PORT", client: "rdma_client -s SERVER -p PORT", want: "rdma_client: end 0"},
	{server: "cmtime -b SERVER -c 20 -p PORT", client: "cmtime -s SERVER -c 20 -p PORT", want: "us / conn", endless: true},
}

func TestPairs(t *testing.T) {
	for _, p := range pairs {
		name := strings.NewReplacer(" -p PORT", "", " SERVER", "", " -g 0", "").Replace(p.client)
		t.Run(name, func(t *testing.T) { p.run(t) })
	}
}

func (p pair) run(t *testing.T) {
	dir := need(t, strings.Fields(p.server)[0], strings.Fields(p.client)[0])
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	fill := strings.NewReplacer("PORT", freePort(t), "SERVER", serverAddr)
	server := start(t, ctx, dir, serverAddr, strings.Fields(fill.Replace(p.server))...)
	client := p.connect(t, ctx, dir, server, strings.Fields(fill.Replace(p.client)))
	if p.endless {
		server.cmd.Process.Kill()
		<-server.done
	} else if err := <-server.done; err != nil {
		t.Errorf("server: %v\n%s", err, server.out.String())
	}
	if !strings.Contains(client, p.want) {
		t.Errorf("the client did not say %q:\n%s", p.want, client)
	}
}

// connect runs the client again until the server listens, and returns what it said.
func (p pair) connect(t *testing.T, ctx context.Context, dir string, server *side, args []string) string {
	t.Helper()
	for {
		client := start(t, ctx, dir, clientAddr, args...)
		err := <-client.done
		if err == nil {
			return client.out.String()
		}
		select {
		case serr := <-server.done:
			t.Fatalf("client: %v\n%s\nserver: %v\n%s", err, client.out.String(), serr, server.out.String())
		case <-ctx.Done():
			t.Fatalf("client: %v\n%s\nthe server did not end", err, client.out.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Both sides of a multicast group wait for each other's datagrams.
func TestMckey(t *testing.T) {
	dir := need(t, "mckey")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	server := start(t, ctx, dir, serverAddr, "mckey", "-m", "239.83.0.1", "-b", serverAddr)
	for { // datagrams to a group that nobody has joined are lost
		out, err := command(ctx, dir, clientAddr, "mckey", "-m", "239.83.0.1", "-b", clientAddr, "-s").CombinedOutput()
		if err != nil {
			t.Fatalf("sender: %v\n%s", err, out)
		}
		select {
		case err := <-server.done:
			if err != nil || !strings.Contains(server.out.String(), "return status 0") {
				t.Errorf("receiver: %v\n%s", err, server.out.String())
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestDevices(t *testing.T) {
	dir := need(t, "ibv_devices", "ibv_devinfo")
	for _, c := range []struct{ args, want string }{
		{"ibv_devices", "roce_" + serverAddr},
		{"ibv_devinfo -v", "GID[  0]:		::ffff:" + serverAddr},
	} {
		out, err := command(t.Context(), dir, serverAddr, strings.Fields(c.args)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, and not %q:\n%s", c.args, err, c.want, out)
		}
	}
}

// The programs in testdata are ours: they try what others seldom do.
func TestGuests(t *testing.T) {
	dir := need(t)
	sources, err := filepath.Glob("testdata/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal("no programs", err)
	}
	for _, src := range sources {
		t.Run(strings.TrimSuffix(filepath.Base(src), ".c"), func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			out, err := exec.Command("gcc", "-O1", "-g", "-Wall", "-Werror", "-o", program, src, filepath.Join(dir, "libibverbs.so.1"),
				"-pthread").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			if out, err := command(ctx, dir, serverAddr, program).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// minPyverbs is how many of rdma-core's own tests must pass; see docs/c-programs.md for
// those that are skipped.
const minPyverbs = 113

func TestPyverbs(t *testing.T) {
	const python, from = "/usr/bin/python3", "/usr/share/doc/rdma-core/tests"
	dir := need(t, python)
	if err := exec.Command(python, "-c", "import pyverbs").Run(); err != nil {
		t.Skip("python3-pyverbs is not installed")
	}
	if _, err := os.Stat(from); err != nil {
		t.Skip(err)
	}
	tests := t.TempDir()
	if out, err := exec.Command("sh", "-c", "cp -r "+from+" "+tests+" && gunzip -f "+tests+"/tests/*.gz").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	out, err := command(ctx, dir, serverAddr, python, tests+"/tests/run_tests.py", "--dev", "roce_"+serverAddr, "-v").CombinedOutput()
	passed := len(regexp.MustCompile(`\.\.\. ok\n`).FindAll(out, -1))
	if err != nil || passed < minPyverbs {
		t.Errorf("%d of rdma-core's tests passed, %d must: %v\n%s", passed, minPyverbs, err, out)
	}
	t.Logf("%d of rdma-core's tests passed", passed)
}
