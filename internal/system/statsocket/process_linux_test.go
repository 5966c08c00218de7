// SPDX-License-Identifier: Apache-2.0

package statsocket_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// child is the environment variable that makes this test a process with a device and so many queue pairs.
const child = "STATSOCKET_TEST_QPS"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(child)); err == nil {
		if err := beSeen(n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beSeen opens a device with n queue pairs and a listener, says so, and waits for its input to end.
func beSeen(n int) error {
	var dev *verbs.Device
	for {
		var err error
		if dev, err = roce.Open(loopback.Next().String(), nil); err == nil {
			break
		} else if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(100, nil)
	if err != nil {
		return err
	}
	for range n {
		if _, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
			return err
		}
	}
	if _, err := pd.RegMR(make([]byte, 8192), verbs.LocalWrite|verbs.RemoteRead); err != nil {
		return err
	}
	l, err := cm.Listen(context.Background(), dev, ":7471")
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println(dev.Name())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startChild starts such a process, and returns its id and the name of its device. end ends it.
func startChild(t testing.TB, qps int, env ...string) (pid int, name string, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), fmt.Sprintf("%s=%d", child, qps)), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, cmd.Wait())
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	return cmd.Process.Pid, strings.TrimSpace(line), end
}

// read reads a process; nil: it is not there.
func read(t testing.TB, pid int) *statsocket.Process {
	t.Helper()
	found, err := statsocket.Read(t.Context(), pid)
	if err != nil || len(found) > 1 {
		t.Fatal(found, err)
	}
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// A process with a device is seen, with all that it has, until it ends.
func TestSeen(t *testing.T) {
	const qps = 200 // several pages
	pid, name, end := startChild(t, qps)
	p := read(t, pid)
	if p == nil || p.Err != nil {
		t.Fatalf("%+v", p)
	}
	if p.PID != pid || p.UID != os.Geteuid() || p.Command == "" || p.State.PID != pid || len(p.State.Devices) != 1 {
		t.Fatalf("%+v", p)
	}
	d := &p.State.Devices[0]
	if d.Name != name || len(d.QPs) < qps || len(d.MRs) != 1 || len(d.Conns) != 1 || len(d.Ports) != 1 ||
		d.Ports[0].State != verbs.PortActive {
		t.Errorf("%s: %+v", name, d)
	}
	if c := d.Conns[0]; !c.Listening || c.Local.Port() != 7471 || c.State != "listening" || c.PortSpace != "TCP" {
		t.Errorf("%+v", c)
	}
	if m := d.MRs[0]; m.Len != 8192 || m.Access != verbs.LocalWrite|verbs.RemoteRead {
		t.Errorf("%+v", m)
	}
	seen := map[verbs.QPN]bool{}
	for _, q := range d.QPs {
		seen[q.QPN] = true
	}
	if len(seen) != len(d.QPs) {
		t.Errorf("%d queue pairs with %d numbers", len(d.QPs), len(seen))
	}
	end()
	if p := read(t, pid); p != nil {
		t.Errorf("it has ended, and is seen: %+v", p)
	}
}

// A process that turns its socket off is not found.
func TestOff(t *testing.T) {
	pid, _, _ := startChild(t, 0, "RAMJET_STAT=off")
	if p := read(t, pid); p != nil {
		t.Errorf("%+v", p)
	}
}

// This process is not among the processes that it reads, and its last device takes the socket with it.
func TestOwn(t *testing.T) {
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	if p := read(t, os.Getpid()); p != nil {
		t.Errorf("%+v", p)
	}
	if ownSocket(t) == "" {
		t.Error("there is no socket while a device is open")
	}
	dev.Close()
	if s := ownSocket(t); s != "" {
		t.Errorf("%s is open after the last device", s)
	}
}

// ownSocket returns the name of this process's socket.
func ownSocket(t *testing.T) string { return socketOf(t, os.Getpid()) }

func socketOf(t *testing.T, pid int) string {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	part := fmt.Sprintf("@ramjet/stat/%d/%d/", os.Geteuid(), pid)
	for line := range strings.Lines(string(table)) {
		if i := strings.Index(line, part); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
	}
	return ""
}

// Readers that connect and do not read delay others for a while only.
func TestSlowReaders(t *testing.T) {
	t.Parallel()                       // it waits
	pid, _, _ := startChild(t, 20_000) // more than a socket takes
	for range 2 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socketOf(t, pid)}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; { // each takes a second of patience
		if p := read(t, pid); p != nil && p.Err == nil {
			if n := len(p.State.Devices[0].QPs); n < 20_000 {
				t.Errorf("%d queue pairs", n)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("it cannot be read any more")
		}
	}
}

// A reader of another user gets nothing.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	pid, _, _ := startChild(t, 10)
	socket := socketOf(t, pid)
	type answer struct {
		n   int
		err error
	}
	got := make(chan answer)
	go asNobody(func(err error) {
		if err != nil {
			got <- answer{0, err}
			return
		}
		fd, err := connectTo(socket)
		if err != nil {
			got <- answer{0, err}
			return
		}
		defer unix.Close(fd)
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60})
		n, err := unix.Read(fd, make([]byte, 100))
		got <- answer{n, err}
	})
	if a := <-got; a.n != 0 || a.err != nil {
		t.Errorf("%d bytes, %v", a.n, a.err)
	}
	if p := read(t, pid); p == nil || p.Err != nil {
		t.Errorf("root reads %+v", p)
	}
}

// asNobody calls f in a thread of another user, which ends with the goroutine.
func asNobody(f func(err error)) {
	runtime.LockOSThread()
	const nobody = 65534
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); e != 0 {
		f(e)
		return
	}
	f(nil)
}

// connectTo connects to a socket, and waits if it is full.
func connectTo(name string) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Strangers that stand in line, and come again as soon as they are disconnected, do not hide a process.
func TestStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	pid, name, _ := startChild(t, 1)
	// While the process is stopped, they fill the line.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	const strangers = 2000
	socket := socketOf(t, pid)
	waiting, end, ended := make(chan error), make(chan bool), make(chan bool)
	go asNobody(func(err error) {
		defer close(ended)
		fds := make([]int, strangers)
		for i := range fds {
			if err == nil {
				fds[i], err = connectTo(socket)
			}
		}
		waiting <- err
		for err == nil {
			for i := range fds {
				select {
				case <-end:
					for _, fd := range fds {
						unix.Close(fd)
					}
					return
				case <-time.After(time.Millisecond):
				}
				unix.Close(fds[i])
				if fds[i], err = connectTo(socket); err != nil {
					break
				}
			}
		}
	})
	defer func() { close(end); <-ended }()
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGCONT)
	for last := time.Now().Add(time.Minute); ; {
		p := read(t, pid)
		if p != nil && p.Err == nil {
			return
		}
		if time.Now().After(last) {
			t.Fatalf("%s: %+v", name, p)
		}
	}
}

// Sockets with the names of other processes, which do not accept, are not taken for processes, and readers do not wait
// for them.
func TestSquatters(t *testing.T) {
	pid, _, _ := startChild(t, 1)
	for i := range 20 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		name := fmt.Sprintf("@ramjet/stat/%d/%d/%016x", os.Geteuid(), os.Getppid(), i)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), unix.Listen(fd, 0)); err != nil {
			t.Fatal(err)
		}
		full, err := connectTo(name)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(full)
	}
	found, err := statsocket.Read(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, p := range found {
		seen = seen || p.PID == pid
		if p.PID == os.Getppid() {
			t.Errorf("%+v", p)
		}
	}
	if !seen {
		t.Error("the process is not seen")
	}
}

// BenchmarkRead reads a process with 10,000 queue pairs.
func BenchmarkRead(b *testing.B) {
	pid, _, _ := startChild(b, 10_000)
	for b.Loop() {
		if p := read(b, pid); p == nil || p.Err != nil || len(p.State.Devices[0].QPs) < 10_000 {
			b.Fatalf("%+v", p)
		}
		b.StopTimer()
		time.Sleep(time.Second) // it rests
		b.StartTimer()
	}
}

// BenchmarkSnapshot measures the time that a snapshot of 10,000 queue pairs takes of the process that is read.
func BenchmarkSnapshot(b *testing.B) {
	dev, _ := loopback.Open(b, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	pd, err := dev.AllocPD()
	if err != nil {
		b.Fatal(err)
	}
	cq, err := dev.CreateCQ(100, nil)
	if err != nil {
		b.Fatal(err)
	}
	for range 10_000 {
		if _, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
			b.Fatal(err)
		}
	}
	var w observe.Writer
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Snapshot(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// A stopped process does not delay readers of others.
func TestStopped(t *testing.T) {
	pid, _, _ := startChild(t, 1)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatal(ws, err)
	}
	if p := read(t, pid); p == nil || p.Err == nil ||
		!strings.Contains(p.Err.Error(), fmt.Sprintf("stopped, by a signal or a debugger: kill -CONT %d", pid)) {
		t.Errorf("%+v", p)
	}
	syscall.Kill(pid, syscall.SIGCONT)
	if p := read(t, pid); p == nil || p.Err != nil {
		t.Errorf("after it went on: %+v", p)
	}
}
