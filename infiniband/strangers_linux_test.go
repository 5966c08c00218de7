// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nobody = 65534

// asNobody does something on a thread of another user.
func asNobody(t *testing.T, do func() error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is another user's from here on
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			done <- errno
			return
		}
		done <- do()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A process of another user that takes the name of this user's fabric is not taken for the fabric, in any way of
// using it, and the errors name the user.
func TestNameOfStranger(t *testing.T) {
	name := fmt.Sprintf("stranger-%d", os.Getpid())
	at := localAddr(name) // of this user
	asNobody(t, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: at.Name}); err != nil {
			return err
		}
		return unix.Listen(fd, 100)
	})
	f := pairFabric(t)
	calls := map[string]func() error{
		"Open":  func() error { _, err := Open(name, "", nil); return err },
		"View":  func() error { _, err := View(name); return err },
		"Route": func() error { _, _, err := Route(name, End{Node: "a"}, End{Node: "b"}); return err },
		"Serve": func() error { return f.Serve(t.Context(), name) },
	}
	for what, call := range calls {
		err := call()
		if who := fmt.Sprintf("of user %d holds the name", nobody); err == nil || !strings.Contains(err.Error(), who) ||
			!errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: %v, want that somebody %s", what, err, who)
		}
	}
}

// A process of another user that connects to this user's fabric is refused with that reason, and the fabric reads
// nothing from it.
func TestProgramOfStranger(t *testing.T) {
	f := pairFabric(t)
	name := fmt.Sprintf("refuses-%d", os.Getpid())
	if err := f.Serve(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	at := localAddr(name) // of this user
	var c *net.UnixConn
	asNobody(t, func() (err error) {
		c, err = net.DialUnix("unix", nil, at)
		return err
	})
	defer c.Close()
	var w welcome
	err := exchangeHello(t.Context(), c, newReader(c, maxMessage), hello{Adapter: "host-1"}, kindWelcome, &w)
	if err == nil || !strings.Contains(err.Error(), "another user's") {
		t.Errorf("another user gets %+v, %v", w, err)
	}
}

// Connections that say nothing keep no others out, and hold little: the oldest of too many gives way.
func TestSilentCrowd(t *testing.T) {
	f := pairFabric(t)
	name := fmt.Sprintf("crowd-%d", os.Getpid())
	if err := f.Serve(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	var crowd []*net.UnixConn
	for range maxGreetings + 20 {
		c, err := dialLocal(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The length of the longest message, and nothing of it.
		if _, err := c.Write([]byte{0, 0, 0, 4, byte(kindHello)}); err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
	}
	d, err := Open(name, "host-1", nil)
	if err != nil {
		t.Fatal("beside the crowd: ", err)
	}
	defer d.Close()
	first := crowd[0]
	first.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := first.Read(make([]byte, 1<<10)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest of a crowd still has its place")
	}
}

// Memory for the announced length of a message is not allocated before the bytes come, and a program's messages must
// be short.
func TestAnnouncedLength(t *testing.T) {
	for _, c := range []struct {
		most, announced int
		refused         bool
	}{
		{maxMessage, maxMessage, false},
		{maxMessage, maxMessage + 1, true},
		{maxRequest, maxRequest + 1, true},
		{maxRequest, maxRequest, false},
	} {
		head := []byte{byte(c.announced), byte(c.announced >> 8), byte(c.announced >> 16), byte(c.announced >> 24),
			byte(kindHello)}
		r := newReader(strings.NewReader(string(head)), c.most)
		if _, _, err := r.next(); errors.Is(err, errMessage) != c.refused {
			t.Errorf("%d bytes of at most %d: %v", c.announced, c.most, err)
		}
		if cap(r.buf) > 2*firstBuffer {
			t.Errorf("%d bytes are announced, 5 have come, and the buffer has %d", c.announced, cap(r.buf))
		}
	}
}

// listener takes a fabric's name, and does nothing else.
func listener(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	name := fmt.Sprintf("mute-%d-%s", os.Getpid(), t.Name())
	l, err := listenLocal(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, name
}

// Opening a device waits for a fabric that takes its time, ends with its context, and at once when the fabric has gone.
func TestOpenWaits(t *testing.T) {
	t.Parallel()
	t.Run("context", func(t *testing.T) {
		_, name := listener(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		if _, err := OpenContext(ctx, name, "", nil); !errors.Is(err, why) {
			t.Errorf("cancelled: %v", err)
		}
	})
	t.Run("gone", func(t *testing.T) {
		l, name := listener(t)
		go func() {
			if c, err := l.AcceptUnix(); err == nil {
				c.Close()
			}
		}()
		start := time.Now()
		if _, err := Open(name, "", nil); err == nil || time.Since(start) >= answerTime {
			t.Errorf("gone: %v after %v", err, time.Since(start))
		}
	})
	t.Run("late", func(t *testing.T) {
		l, name := listener(t)
		f := pairFabric(t)
		go func() {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			time.Sleep(askInterval + askInterval/2) // longer than one look takes
			f.serve(t.Context(), c, &greetings{})
		}()
		d, err := Open(name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	})
}
