// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

const (
	// toolTime is a bound that only a fault exceeds.
	toolTime = 2 * time.Minute
	// answerTime is how many milliseconds programs wait for an answer, before they ask again three times. By themselves
	// they wait a second at most, in which a busy machine may not give one.
	answerTime = "15000"
	// stuckTime is how often an OpenSM that is to end is looked at.
	stuckTime = 20 * time.Second
)

// unasked are the programs that have no option for answerTime.
var unasked = []string{"ibstat", "ibidsverify"}

// tools are Debian's programs, and the library by which they work on a fabric of ours. Not all of them can be told how
// long to wait for an answer. So tests with many of them run one by one.
type tools struct {
	t      testing.TB
	socket string
	home   string // where they run; empty: at the first adapter that is not in use
	dir    string
	env    []string
}

var sockets atomic.Uint32

// newTools serves a fabric to programs. It skips the test if they are not installed.
func newTools(t testing.TB, f *infiniband.Fabric, programs ...string) *tools {
	t.Helper()
	libraries, _ := filepath.Glob("/usr/lib/*/umad2sim/libumad2sim.so")
	if len(libraries) == 0 {
		t.Skip("libumad2sim.so is not installed: install libumad2sim0")
	}
	for _, p := range programs {
		if _, err := program(p); err != nil {
			t.Skipf("%v: install opensm and infiniband-diags", err)
		}
	}
	x := &tools{t: t, socket: fmt.Sprintf("ramjet-%d-%d", os.Getpid(), sockets.Add(1)), dir: t.TempDir()}
	x.env = append(os.Environ(), "LD_PRELOAD="+libraries[0], "IBSIM_SOCKNAME="+x.socket, "OSM_CACHE_DIR="+x.dir,
		"OSM_TMP_DIR="+x.dir)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	if err := f.ServeIBSim(ctx, x.socket); err != nil {
		t.Fatal(err)
	}
	return x
}

// program finds a program; ordinary users do not have all of them in their path.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}

// command prepares a program that runs at a node; an empty one stands for any adapter.
func (x *tools) command(ctx context.Context, node, name string, args ...string) *exec.Cmd {
	x.t.Helper()
	path, err := program(name)
	if err != nil {
		x.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Dir, c.Env = x.dir, append(x.env, "SIM_HOST="+node)
	c.WaitDelay = time.Minute
	return c
}

// run returns the output of a program.
func (x *tools) run(name string, args ...string) string {
	x.t.Helper()
	out, err := x.try(name, args...)
	if err != nil {
		x.t.Fatal(err)
	}
	return out
}

func (x *tools) try(name string, args ...string) (string, error) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), toolTime)
	defer cancel()
	if !slices.Contains(unasked, name) && !slices.Contains(args, "-t") {
		args = append([]string{"-t", answerTime}, args...)
	}
	c := x.command(ctx, x.home, name, args...)
	var failed bytes.Buffer
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, failed.Bytes(), out)
	}
	return string(out), err
}

// openSM is a running OpenSM.
type openSM struct {
	t   testing.TB
	c   *exec.Cmd
	out bytes.Buffer
	log string

	allowed *regexp.Regexp // complaints that are right; nil: none
}

// unanswered are OpenSM's complaints where nothing answers any more.
var unanswered = regexp.MustCompile(`IB_TIMEOUT|Timeout while getting attribute`)

// cutOff are messages for a fabric where a device that listens is cut off as well: it registers its address on its own,
// and OpenSM may have dropped its port when it comes to the request.
var cutOff = regexp.MustCompile(unanswered.String() + `|osm_get_port_by_mad_addr: ERR 7504: Lid is out of range` +
	`|match_service_pkey_with_ports_pkey: ERR 2404: Cannot find requester physical port`)

// givesUpSoon has OpenSM give up soon what is not answered: it asks nodes that are not there any more.
const givesUpSoon = "transaction_timeout 200"

// openSM starts OpenSM at an adapter, and ends it with the test.
func (x *tools) openSM(node string, options ...string) *openSM {
	x.t.Helper()
	s := &openSM{t: x.t, log: filepath.Join(x.dir, "opensm.log")}
	conf := filepath.Join(x.dir, "opensm.conf")
	text := strings.Join(append([]string{"sweep_interval 1", "sminfo_polling_timeout 500", "polling_retry_number 2",
		"log_file " + s.log, "subnet_timeout 18", "daemon FALSE", "console off", "dump_files_dir " + x.dir,
		"log_flags 0x3", "transaction_timeout " + answerTime,
		"force_log_flush TRUE"}, options...), "\n")
	if err := os.WriteFile(conf, []byte(text+"\n"), 0o600); err != nil {
		x.t.Fatal(err)
	}
	s.c = x.command(context.Background(), node, "opensm", "-F", conf)
	s.c.Stdout, s.c.Stderr = &s.out, &s.out
	if err := s.c.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(s.end)
	return s
}

// threadsOf returns a line for each thread of a process: its number, name, and the system call that it waits in.
func threadsOf(pid int) string {
	var b strings.Builder
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		name, _ := os.ReadFile(filepath.Join(task, "comm"))
		call, _ := os.ReadFile(filepath.Join(task, "syscall"))
		fmt.Fprintf(&b, "%s %s %s\n", filepath.Base(task), bytes.TrimSpace(name), bytes.TrimSpace(call))
	}
	return b.String()
}

// deadlocked reports whether all threads that threadsOf has listed wait for one another. OpenSM cancels the thread that
// receives when it ends, and that may leave a lock of libumad2sim taken. If the fabric owed an answer, a thread
// would wait at a socket.
func deadlocked(threads string) bool {
	for line := range strings.Lines(threads) {
		words := strings.Fields(line)
		if len(words) < 3 || words[2] != strconv.Itoa(unix.SYS_FUTEX) {
			return false
		}
	}
	return threads != ""
}

func TestDeadlocked(t *testing.T) {
	futex := fmt.Sprintf("1 opensm %d 0x1 0x2\n", unix.SYS_FUTEX)
	socket := fmt.Sprintf("2 opensm %d 0x7 0x1\n", unix.SYS_RECVFROM)
	for threads, want := range map[string]bool{
		"":                           false,
		futex:                        true,
		futex + futex:                true,
		futex + "2 opensm running\n": false,
		futex + socket:               false,
		"3 opensm\n":                 false,
	} {
		if got := deadlocked(threads); got != want {
			t.Errorf("%q: %t", threads, got)
		}
	}
}

// awaitEnd waits until it has ended, and kills it if it does not.
func (s *openSM) awaitEnd() {
	ended := make(chan struct{})
	go func() { s.c.Wait(); close(ended) }()
	for late := time.Now().Add(toolTime); ; {
		select {
		case <-ended:
			return
		case <-time.After(stuckTime):
		}
		threads := threadsOf(s.c.Process.Pid) // the functions in which they wait
		switch stuck := deadlocked(threads); {
		case stuck:
			s.t.Logf("OpenSM waits for itself:\n%s", threads)
		case time.Now().After(late):
			s.t.Errorf("OpenSM did not end:\n%s", threads)
		default:
			continue
		}
		s.c.Process.Kill()
		<-ended
		return
	}
}

// end ends it, and looks for complaints in its log.
func (s *openSM) end() {
	if s.c.ProcessState != nil {
		return
	}
	ran, err := os.ReadFile(s.log) // read before it ends: at the end it complains about requests in flight
	if err != nil {
		s.t.Errorf("%v\n%s", err, s.out.Bytes())
	}
	s.c.Process.Signal(syscall.SIGTERM)
	s.awaitEnd()
	for line := range strings.Lines(string(ran)) {
		if strings.Contains(line, " ERR ") && (s.allowed == nil || !s.allowed.MatchString(line)) {
			s.t.Errorf("OpenSM: %s", strings.TrimSpace(line))
		}
	}
	if s.t.Failed() {
		log, _ := os.ReadFile(s.log)
		s.t.Logf("OpenSM:\n%s%s", s.out.Bytes(), log)
	}
}
