// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Both ends of a connection within this process are this process, and a closed connection has no other end.
func TestOf(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{a, b} {
		cred, err := Of(c.(*net.UnixConn))
		if err != nil || int(cred.Pid) != os.Getpid() || int(cred.Uid) != os.Geteuid() {
			t.Errorf("%+v, %v", cred, err)
		}
		c.Close()
		if cred, err := Of(c.(*net.UnixConn)); err == nil {
			t.Errorf("closed: %+v", cred)
		}
	}
}

// A caller that waits at a socket whose backlog is full gets a place when there is one, and gives up in time.
func TestWait(t *testing.T) {
	for network, kind := range map[string]int{"unix": unix.SOCK_STREAM, "unixpacket": unix.SOCK_SEQPACKET} {
		name := fmt.Sprintf("@ramjet-test-%s-%d", network, os.Getpid())
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), unix.Listen(fd, 0)); err != nil {
			t.Fatal(err)
		}
		first, err := net.Dial(network, name)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		if c, err := net.Dial(network, name); !errors.Is(err, syscall.EAGAIN) {
			t.Fatal("there is room", c, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := Wait(ctx, network, name); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waited := make(chan error)
		go func() {
			c, err := Wait(ctx, network, name)
			if err == nil {
				_, err = c.Write([]byte("here"))
				c.Close()
			}
			waited <- err
		}()
		for i := 0; ; i++ {
			n, _, err := unix.Accept(fd)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				defer unix.Close(n)
				continue
			}
			b := make([]byte, 10)
			got, err := unix.Read(n, b)
			unix.Close(n)
			if err != nil {
				t.Fatal(err)
			}
			if string(b[:got]) == "here" {
				break
			}
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
	}
}

// A process that spins works, a sleeping one does not, and a process that does not exist is unknown.
func TestWorking(t *testing.T) {
	for program, works := range map[string]bool{"while :; do :; done": true, "exec sleep 600": false} {
		c := exec.Command("sh", "-c", program)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); Working(c.Process.Pid) != works; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: it works: %v", program, !works)
				break
			}
		}
		c.Process.Kill()
		c.Wait()
		if Working(c.Process.Pid) {
			t.Errorf("%s: it works after its end", program)
		}
	}
}
