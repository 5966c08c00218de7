// SPDX-License-Identifier: Apache-2.0

// The race detector sees nothing of other processes.
//go:build linux && !race

package programs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// The devices of the two sides, which no other process has.
var (
	serverAddr = loopback.Next().String()
	clientAddr = loopback.Next().String()
)

// libs builds the libraries once.
var libs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ramjet-cabi")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("../build.sh", dir).CombinedOutput()
	if err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

// commandPath builds the command once, in a folder below the libraries'.
var commandPath = sync.OnceValues(func() (string, error) {
	dir, err := libs()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "command", "ramjet")
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, "../../cmd/ramjet").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// ramjet returns the path of the command. It skips tests that need skips.
func ramjet(t testing.TB) string {
	t.Helper()
	need(t)
	path, err := commandPath()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		if dir, err := libs(); err == nil {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

var built bool

// need skips the test where the libraries cannot be built or a program is missing.
func need(t testing.TB, programs ...string) (dir string) {
	t.Helper()
	if _, test := t.(*testing.T); test { // benchmarks always run
		testrun.SkipUnlessLong(t, "builds C libraries, and runs programs on them for minutes")
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

// command prepares a program that sees one device: of an address, or of a kind and address.
func command(ctx context.Context, dir, addr string, args ...string) *exec.Cmd {
	if !strings.Contains(addr, ":") {
		addr = "roce:" + addr
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "RAMJET_DEVICES="+addr)
	c.WaitDelay = 20 * time.Second // for its output to be read, on a busy machine too
	return c
}

// side is a program that has been started.
type side struct {
	cmd  *exec.Cmd
	out  testrun.Buffer
	done chan error
}

func start(t testing.TB, ctx context.Context, dir, addr string, args ...string) *side {
	t.Helper()
	s := &side{cmd: command(ctx, dir, addr, args...), done: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.done <- s.cmd.Wait()
		close(s.done) // whoever waits again finds that it has ended
	}()
	return s
}

// pair is a program that has two sides, on RoCEv2 devices or others. PORT and SERVER in the arguments stand for a free
// TCP port and the server's address.
type pair struct {
	kind           string // of device; empty: roce
	server, client string
	endless        bool   // the server never ends by itself
	ready          string // the server's output when clients may come; empty: they come until it listens
	want           string
	surplus        string                            // a permitted error of one side once the other one has ended
	compare        func(server, client string) error // of the output of both; nil: nothing
}

// table heads perftest's table.
const table = "#bytes"

var pairs = []pair{
	{server: "ibv_rc_pingpong -g 0 -c -p PORT", client: "ibv_rc_pingpong -g 0 -c -p PORT SERVER", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -e -p PORT", client: "ibv_rc_pingpong -g 0 -e -p PORT SERVER", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -t -p PORT", client: "ibv_rc_pingpong -g 0 -t -p PORT SERVER", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -N -p PORT", client: "ibv_rc_pingpong -g 0 -N -p PORT SERVER", want: "iters in"},
	{server: "ibv_uc_pingpong -g 0 -n 100 -p PORT", client: "ibv_uc_pingpong -g 0 -n 100 -p PORT SERVER",
		want: "iters in"},
	{server: "ibv_ud_pingpong -g 0 -n 100 -p PORT", client: "ibv_ud_pingpong -g 0 -n 100 -p PORT SERVER",
		want: "iters in"},
	{server: "ibv_srq_pingpong -g 0 -p PORT", client: "ibv_srq_pingpong -g 0 -p PORT SERVER", want: "iters in"},
	{server: "ibv_xsrq_pingpong -g 0 -p PORT", client: "ibv_xsrq_pingpong -g 0 -p PORT SERVER", want: "success"},

	{server: "rping -s -a SERVER -C 20 -v -p PORT", client: "rping -c -a SERVER -C 20 -v -p PORT",
		want: "rdma-ping-19"},
	{server: "rping -s -a SERVER -C 20 -v -q -p PORT", client: "rping -c -a SERVER -C 20 -v -q -p PORT",
		want: "rdma-ping-19"},
	{server: "ucmatose -b SERVER -p PORT", client: "ucmatose -s SERVER -p PORT", want: "return status 0"},
	{server: "udaddy -b SERVER", client: "udaddy -s SERVER", want: "return status 0"},
	{server: "rdma_server -p PORT", client: "rdma_client -s SERVER -p PORT", want: "rdma_client: end 0"},
	{server: "rdma_xserver -p PORT", client: "rdma_xclient -s SERVER -p PORT", want: "rdma_xclient: end 0"},
	{server: "rdma_xserver -c x -p PORT", client: "rdma_xclient -c x -s SERVER -p PORT", want: "rdma_xclient: end 0"},
	{kind: "iwarp", server: "rping -s -a SERVER -C 20 -v -p PORT", client: "rping -c -a SERVER -C 20 -v -p PORT",
		want: "rdma-ping-19"},
	{kind: "iwarp", server: "rping -s -a SERVER -C 20 -v -q -p PORT", client: "rping -c -a SERVER -C 20 -v -q -p PORT",
		want: "rdma-ping-19"},
	{kind: "iwarp", server: "ucmatose -b SERVER -p PORT", client: "ucmatose -s SERVER -p PORT",
		want: "return status 0"},
	{kind: "iwarp", server: "rdma_server -p PORT", client: "rdma_client -s SERVER -p PORT", want: "rdma_client: end 0"},
	{kind: "shm", server: "ibv_rc_pingpong -g 0 -c -p PORT", client: "ibv_rc_pingpong -g 0 -c -p PORT SERVER",
		want: "iters in"},
	{kind: "shm", server: "ibv_rc_pingpong -g 0 -e -p PORT", client: "ibv_rc_pingpong -g 0 -e -p PORT SERVER",
		want: "iters in"},
	{kind: "shm", server: "ibv_srq_pingpong -g 0 -p PORT", client: "ibv_srq_pingpong -g 0 -p PORT SERVER",
		want: "iters in"},
	{kind: "shm", server: "ibv_uc_pingpong -g 0 -n 100 -p PORT", client: "ibv_uc_pingpong -g 0 -n 100 -p PORT SERVER",
		want: "iters in"},
	{kind: "shm", server: "ibv_ud_pingpong -g 0 -n 100 -p PORT", client: "ibv_ud_pingpong -g 0 -n 100 -p PORT SERVER",
		want: "iters in"},
	{kind: "shm", server: "udaddy -b SERVER", client: "udaddy -s SERVER", want: "return status 0"},
	{kind: "shm", server: "rping -s -a SERVER -C 20 -v -p PORT", client: "rping -c -a SERVER -C 20 -v -p PORT",
		want: "rdma-ping-19"},
	{kind: "shm", server: "rping -s -a SERVER -C 20 -v -q -p PORT", client: "rping -c -a SERVER -C 20 -v -q -p PORT",
		want: "rdma-ping-19"},
	{kind: "shm", server: "ucmatose -b SERVER -p PORT", client: "ucmatose -s SERVER -p PORT", want: "return status 0"},
	{kind: "shm", server: "rdma_server -p PORT", client: "rdma_client -s SERVER -p PORT", want: "rdma_client: end 0"},
	{server: "cmtime -b SERVER -c 20 -p PORT", client: "cmtime -s SERVER -c 20 -p PORT", want: "us / conn",
		endless: true},
}

func TestPairs(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name(), p.run)
	}
}

// name is the client's command line without the arguments that all have.
func (p pair) name() string {
	name := strings.NewReplacer(" -p PORT", "", " SERVER", "", " -g 0", "").Replace(p.client)
	if p.kind != "" {
		name = p.kind + " " + name
	}
	return name
}

func (p pair) run(t *testing.T) {
	dir := need(t, strings.Fields(p.server)[0], strings.Fields(p.client)[0])
	err := p.attempt(t, dir, 3*time.Minute)
	for n := 0; n < 2 && err != nil && silent.MatchString(err.Error()); n++ {
		t.Logf("again, as a side got no processor for long: %v", err)
		err = p.attempt(t, dir, 3*time.Minute)
	}
	if err != nil {
		t.Error(err)
	}
}

// silent is what programs say that have given up a peer. They wait for two seconds, and mostly have no option for more:
// on a busy machine a process may get no processor for longer.
var silent = regexp.MustCompile(`transport retry counter exceeded|[Ff]ailed status 12\b|RETRY_EXC`)

// attempt runs both sides once.
func (p pair) attempt(t *testing.T, dir string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	kind := cmp.Or(p.kind, "roce") + ":"
	at := [2]string{kind + serverAddr, kind + clientAddr}
	if p.kind == "infiniband" {
		at = [2]string{adapter(1), adapter(2)}
	}
	fill := strings.NewReplacer("PORT", freePort(t), "SERVER", serverAddr)
	server := start(t, ctx, dir, at[0], strings.Fields(fill.Replace(p.server))...)
	for p.ready != "" && !strings.Contains(server.out.String(), p.ready) {
		select {
		case err := <-server.done:
			return fmt.Errorf("server: %w\n%s", err, server.out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	client, err := p.connect(t, ctx, dir, server, at[1], strings.Fields(fill.Replace(p.client)))
	if err != nil {
		return err
	}
	if p.endless {
		server.cmd.Process.Kill()
		<-server.done
	} else if err := <-server.done; err != nil && (!p.leftOver(server.out.String()) || p.leftOver(client)) {
		return fmt.Errorf("server: %w\n%s", err, server.out.String())
	}
	whole := client
	if p.leftOver(client) {
		whole = server.out.String()
	}
	if !strings.Contains(whole, p.want) {
		return fmt.Errorf("nobody said %q:\n%s", p.want, whole)
	}
	if p.compare != nil {
		return p.compare(server.out.String(), client)
	}
	return nil
}

// leftOver reports whether a side failed because of its last work requests, after the other one had ended.
func (p pair) leftOver(out string) bool { return p.surplus != "" && strings.Contains(out, p.surplus) }

// connect runs the client again until the server listens, and returns its output. An error has each attempt: a server
// that serves one client waits for ever if that failed once it was connected.
func (p pair) connect(t testing.TB, ctx context.Context, dir string, server *side, device string,
	args []string) (string, error) {
	t.Helper()
	var failed []error
	for {
		client := start(t, ctx, dir, device, args...)
		err := <-client.done
		if err == nil || p.leftOver(client.out.String()) {
			return client.out.String(), nil
		}
		if err = fmt.Errorf("client: %w\n%s", err, client.out.String()); len(failed) == 0 ||
			failed[len(failed)-1].Error() != err.Error() {
			failed = append(failed, err)
		}
		if silent.MatchString(err.Error()) { // the server takes no other client, and waits
			server.cmd.Process.Kill()
			<-server.done
			return "", fmt.Errorf("%w\nserver:\n%s", err, server.out.String())
		}
		select {
		case serr := <-server.done:
			return "", fmt.Errorf("%w\nserver: %w\n%s", errors.Join(failed...), serr, server.out.String())
		case <-ctx.Done():
			<-server.done
			return "", fmt.Errorf("%w\nthe server did not end", errors.Join(failed...))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// freePort returns a TCP port without a listener, below the ports that the system gives out. It is the test's to its
// end: tests of other processes do not get it before the program listens.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		taken, err := net.Listen("unix", "@ramjet-programs-port-"+port)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			l.Close()
			t.Cleanup(func() { taken.Close() })
			return port
		}
		taken.Close()
	}
	t.Fatal("no free port")
	return ""
}

// Both sides of a multicast group wait for each other's datagrams.
func TestMckey(t *testing.T) {
	for _, kind := range []string{"roce:", "shm:"} {
		t.Run(kind, func(t *testing.T) {
			mckey(t, need(t, "mckey"), kind+serverAddr, serverAddr, kind+clientAddr, clientAddr)
		})
	}
	// Without -b the group's address alone leads to a device.
	t.Run("unbound", func(t *testing.T) {
		mckey(t, need(t, "mckey"), "shm:"+serverAddr, serverAddr, "shm:"+clientAddr, "")
	})
}

// mckey runs both sides of a group, each on a device, by the device's IP address if there is one.
func mckey(t *testing.T, dir, receiver, receiverIP, sender, senderIP string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	group := loopback.NextGroup().String()
	args := func(ip string, more ...string) []string {
		args := append([]string{"mckey", "-m", group}, more...)
		if ip != "" {
			args = append(args, "-b", ip)
		}
		return args
	}
	server := start(t, ctx, dir, receiver, args(receiverIP)...)
	for { // datagrams to a group without members are lost
		out, err := command(ctx, dir, sender, args(senderIP, "-s")...).CombinedOutput()
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
		{"ibv_devices", "roce0 "},
		{"ibv_devinfo", "roce:" + serverAddr + "\n"}, // as the board's id
		{"ibv_devinfo -v", "GID[  0]:		::ffff:" + serverAddr},
	} {
		out, err := command(t.Context(), dir, serverAddr, strings.Fields(c.args)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, and not %q:\n%s", c.args, err, c.want, out)
		}
	}
}

// The programs in testdata are ours: they make calls that other programs seldom make. TestCheck has the program with
// mistakes.
func TestGuests(t *testing.T) {
	dir := need(t)
	sources, err := filepath.Glob("testdata/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal("no programs", err)
	}
	for _, src := range sources {
		if src == mistakes {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(src), ".c"), func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			out, err := exec.Command("gcc", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Werror", "-o", program, src,
				filepath.Join(dir, "librdmacm.so.1"), filepath.Join(dir, "libibverbs.so.1"),
				"-pthread").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			out, err = command(ctx, dir, serverAddr, program).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			} else if len(out) > 0 {
				t.Logf("%s", out)
			}
		})
	}
}

// The example for C programs runs as its comment says.
func TestEcho(t *testing.T) {
	dir := need(t)
	echo := filepath.Join(t.TempDir(), "echo")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", echo, "../../examples/echo/echo.c",
		filepath.Join(dir, "librdmacm.so.1"), filepath.Join(dir, "libibverbs.so.1")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	server := start(t, ctx, dir, serverAddr, echo)
	for !strings.Contains(server.out.String(), "listening on") {
		if time.Sleep(5 * time.Millisecond); ctx.Err() != nil {
			t.Fatalf("the server does not listen:\n%s", server.out.String())
		}
	}
	for _, message := range []string{"hello", "again"} {
		out, err := command(ctx, dir, clientAddr, echo, serverAddr, message).CombinedOutput()
		if err != nil || string(out) != message+"\n" {
			t.Errorf("%q comes back as %q, %v", message, out, err)
		}
	}
	cancel()
	<-server.done
}

// minPyverbs is how many of rdma-core's own tests must pass; see docs/c-programs.md for
// skipped ones.
const minPyverbs = 123

func TestPyverbs(t *testing.T) {
	const device = "roce0"
	dir := need(t, python, "ip")
	tests := pyverbsTests(t)
	// The tests of librdmacm look up the device's network interface in sysfs, and the
	// interface's first address is the one they use.
	if err := os.MkdirAll(filepath.Join(tests, "sys", device, "device", "net", "lo"), 0o755); err != nil {
		t.Fatal(err)
	}
	loopback.Alone(t)
	runPyverbs(t, dir, tests, device, "127.0.0.1", minPyverbs)
}

const python = "/usr/bin/python3"

// pyverbsTests returns a folder with rdma-core's tests, for which its folder sys stands in for sysfs.
func pyverbsTests(t *testing.T) (folder string) {
	t.Helper()
	const from = "/usr/share/doc/rdma-core/tests"
	if err := exec.Command(python, "-c", "import pyverbs").Run(); err != nil {
		t.Skip("python3-pyverbs is not installed")
	}
	if _, err := os.Stat(from); err != nil {
		t.Skip(err)
	}
	tests := t.TempDir()
	if out, err := exec.Command("sh", "-c", "cp -r "+from+" "+tests+" && gunzip -f "+tests+
		"/tests/*.gz").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	base := filepath.Join(tests, "tests", "base.py")
	script, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	script = bytes.ReplaceAll(script, []byte("/sys/class/infiniband/"), []byte(tests+"/sys/"))
	if err := os.WriteFile(base, script, 0o644); err != nil {
		t.Fatal(err)
	}
	return tests
}

// runPyverbs runs rdma-core's tests on a device, of which least must pass, and none may fail.
func runPyverbs(t *testing.T, dir, tests, device, at string, least int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := command(ctx, dir, at, python, tests+"/tests/run_tests.py", "--dev", device, "-v").CombinedOutput()
	passed := len(regexp.MustCompile(`\.\.\. ok\n`).FindAll(out, -1))
	if err != nil || passed < least {
		t.Errorf("%d of rdma-core's tests passed, %d must: %v\n%s", passed, least, err, out)
	}
	t.Logf("%d of rdma-core's tests passed", passed)
}
