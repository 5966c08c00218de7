// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func create(t *testing.T, size int, peers Rights) *Segment {
	t.Helper()
	s, err := Create("ramjet-test", size, peers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// again returns another descriptor of a segment, as a peer has it.
func again(t *testing.T, s *Segment, how int) int {
	t.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", s.FD()), how|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestReadOnly has a peer read the owner's memory, and try to write to it by all ways.
func TestReadOnly(t *testing.T) {
	s := create(t, 100, ReadOnly)
	copy(s.Bytes(), "hello")
	p, err := Map(again(t, s, os.O_RDWR), 100, 1<<30, ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !bytes.HasPrefix(p.Bytes(), []byte("hello")) {
		t.Errorf("the peer sees %q", p.Bytes()[:5])
	}
	if w, err := Map(again(t, s, os.O_RDWR), 100, 1<<30, ReadWrite); !errors.Is(err, unix.EPERM) {
		t.Errorf("the peer maps it to write to it: %v, %v", w, err)
	}
	if err := unix.Mprotect(p.Bytes(), unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("the peer makes its mapping writable: %v", err)
	}
	f := os.NewFile(uintptr(again(t, s, os.O_RDWR)), "again")
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("the peer writes to the file: %v", err)
	}
	for what, err := range map[string]error{"shorter": f.Truncate(0), "longer": f.Truncate(1 << 20),
		"with a hole": unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("the peer makes it %s: %v", what, err)
		}
	}
	s.Bytes()[0] = 'j'
	if p.Bytes()[0] != 'j' {
		t.Error("the owner cannot write any more, or the peer does not see it")
	}
}

// TestMapRefuses hands over memory that could vanish.
func TestMapRefuses(t *testing.T) {
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(fd, 1, 1<<30, ReadWrite); !errors.Is(err, errUnsealed) {
		t.Errorf("a file that is not sealed: %v", err)
	}
	null, err := unix.Open(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Map(null, 1, 1<<30, ReadOnly); err == nil {
		t.Error("a device is mapped")
	}
	if err := unix.Close(null); !errors.Is(err, unix.EBADF) {
		t.Errorf("the descriptor was left open: %v", err)
	}
	s := create(t, 1, ReadWrite)
	if _, err := Map(again(t, s, os.O_RDWR), 1<<20, 1<<30, ReadWrite); err == nil {
		t.Error("a segment that is too small is mapped")
	}
}

// wait waits until a descriptor can be read.
func wait(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 120_000); n != 1 || err != nil {
		t.Fatalf("nothing comes: %d, %v", n, err)
	}
}

func place(t *testing.T, dir string) (Place, string) {
	return Place{Dir: dir}, fmt.Sprintf("test-%d-%s", os.Getpid(), filepath.Base(t.Name()))
}

// TestSocket has two ends talk, hand over memory, and end.
func TestSocket(t *testing.T) {
	for what, dir := range map[string]string{"abstract": "", "directory": t.TempDir()} {
		t.Run(what, func(t *testing.T) {
			p, name := place(t, dir)
			if _, err := p.Connect(name); !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT) {
				t.Errorf("nobody is there: %v", err)
			}
			listener, err := p.Listen(name, 8)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Listen(name, 8); !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("the listener is opened twice: %v", err)
			}
			if probe, err := listener.Accept(); err == nil { // of the attempt to open it twice
				if _, _, err := probe.Receive(); err != io.EOF {
					t.Errorf("the other attempt says %v", err)
				}
				probe.Close()
			}
			if _, err := listener.Accept(); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("nobody has come: %v", err)
			}
			a, err := p.Connect(name)
			if err != nil {
				t.Fatal(err)
			}
			wait(t, listener.FD())
			b, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if a.PID() != os.Getpid() || b.PID() != os.Getpid() {
				t.Errorf("processes %d and %d, not %d", a.PID(), b.PID(), os.Getpid())
			}
			seg := create(t, 100, ReadWrite)
			copy(seg.Bytes(), "shared")
			if err := a.Send([]byte("a message"), seg.FD(), seg.FD()); err != nil {
				t.Fatal(err)
			}
			wait(t, b.FD())
			message, files, err := b.Receive()
			if err != nil || string(message) != "a message" || len(files) != 2 {
				t.Fatalf("%q with %d descriptors: %v", message, len(files), err)
			}
			one, err := InodeOf(files[0])
			other, err2 := InodeOf(seg.FD())
			if one != other || err != nil || err2 != nil {
				t.Errorf("file %v, %v became %v, %v", other, err2, one, err)
			}
			unix.Close(files[1])
			if m, err := Map(files[0], 1, 1<<30, ReadWrite); err != nil ||
				!bytes.HasPrefix(m.Bytes(), []byte("shared")) {
				t.Errorf("what came is not the segment: %v", err)
			} else {
				m.Close()
			}
			if _, _, err := b.Receive(); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("nothing more was sent: %v", err)
			}
			if err := a.Send(make([]byte, MaxMessage+1)); !errors.Is(err, unix.EMSGSIZE) {
				t.Errorf("a message that is too long: %v", err)
			}
			n := 0
			for err = nil; err == nil; n++ { // the peer does not read them
				err = a.Send(make([]byte, MaxMessage))
			}
			if !errors.Is(err, unix.EAGAIN) || n < 2 {
				t.Errorf("message %d: %v", n, err)
			}
			if !b.Lives() {
				t.Error("the peer is alive")
			}
			a.Close()
			if b.Lives() {
				t.Error("the peer has gone")
			}
			for err = nil; err == nil; {
				_, _, err = b.Receive()
			}
			if err != io.EOF {
				t.Errorf("the end: %v", err)
			}
			b.Close()
			if err := listener.Close(); err != nil {
				t.Error(err)
			}
			again, err := p.Listen(name, 8)
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
}

// TestAbandoned opens a listener in a directory whose owner was killed.
func TestAbandoned(t *testing.T) {
	if dir := os.Getenv("RAMJET_TEST_DIR"); dir != "" { // the owner
		if _, err := (Place{Dir: dir}).Listen("listener", 1); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("open\n")
		io.Copy(io.Discard, os.Stdin) // until it is killed
	}
	p := Place{Dir: t.TempDir()}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestAbandoned$")
	cmd.Env = append(os.Environ(), "RAMJET_TEST_DIR="+p.Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	if _, err := p.Listen("listener", 1); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("its owner is alive: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	listener, err := p.Listen("listener", 1)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if left, _ := os.ReadDir(p.Dir); len(left) > 0 {
		t.Errorf("%s is left behind", left[0].Name())
	}
}

// A process that is held lives no more once it has ended, though a child has its socket: its number may be another's.
func TestHold(t *testing.T) {
	if dir := os.Getenv("RAMJET_TEST_HEIR"); dir != "" { // connects, leaves the socket to a child, and ends
		s, err := (Place{Dir: dir}).Connect("listener")
		if err != nil {
			t.Fatal(err)
		}
		heir := exec.Command("sleep", "60")
		heir.ExtraFiles = []*os.File{os.NewFile(uintptr(s.fd), "socket")}
		if err := heir.Start(); err != nil {
			t.Fatal(err)
		}
		fmt.Println(heir.Process.Pid)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	p := Place{Dir: t.TempDir()}
	listener, err := p.Listen("listener", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestHold$")
	cmd.Env = append(os.Environ(), "RAMJET_TEST_HEIR="+p.Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var heir int
	if _, err := fmt.Fscan(out, &heir); err != nil {
		t.Fatal(err)
	}
	defer unix.Kill(heir, unix.SIGKILL)
	var socks [2]*Socket
	if socks[0], err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	defer socks[0].Close()
	if !socks[0].Lives() || !socks[0].Hold() || !socks[0].Hold() || !socks[0].Lives() {
		t.Fatal("it has not ended")
	}
	in.Close()
	cmd.Wait()
	if socks[0].Lives() {
		t.Error("it has ended")
	}
	if socks[0].Gone() {
		t.Error("the socket was not left to the child: this tests nothing")
	}
	if fd, err := unix.Dup(socks[0].fd); err != nil {
		t.Fatal(err)
	} else if socks[1], err = takeSocket(fd); err != nil {
		t.Fatal(err)
	}
	defer socks[1].Close()
	if socks[1].Hold() {
		t.Error("a process that has ended can be held")
	}
}

// Of many listeners at one name at the same time, which a killed process has left, one succeeds. The others take
// nothing away from it.
func TestOneListener(t *testing.T) {
	p := Place{Dir: t.TempDir()}
	for range 50 {
		left, err := newSocket()
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(left, p.sockaddr("listener")); err != nil {
			t.Fatal(err)
		}
		unix.Close(left)
		const all = 8
		listeners := make(chan *Listener, all)
		var wait sync.WaitGroup
		for range all {
			wait.Go(func() {
				l, err := p.Listen("listener", 2*all) // the others look whether it is abandoned
				switch {
				case err == nil:
					listeners <- l
				case !errors.Is(err, unix.EADDRINUSE):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := len(listeners); n != 1 {
			t.Fatalf("%d listen", n)
		}
		l := <-listeners
		c, err := p.Connect("listener")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
}

// A listener whose file was removed does not remove that of the next one.
func TestCloseLeavesOthers(t *testing.T) {
	p := Place{Dir: t.TempDir()}
	first, err := p.Listen("listener", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.sockaddr("listener").Name); err != nil {
		t.Fatal(err)
	}
	second, err := p.Listen("listener", 1)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	c, err := p.Connect("listener")
	if err != nil {
		t.Fatal("the second is gone:", err)
	}
	c.Close()
	second.Close()
	if left, _ := os.ReadDir(p.Dir); len(left) > 0 {
		t.Errorf("%s is left behind", left[0].Name())
	}
}

// A lock that another user could hold is refused.
func TestForeignLock(t *testing.T) {
	p := Place{Dir: t.TempDir()}
	path := filepath.Join(p.Dir, fmt.Sprintf(".ramjet-lock-%d", os.Geteuid()))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err := p.Listen("listener", 1); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v, %v", l, err)
	}
}
