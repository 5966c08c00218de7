// SPDX-License-Identifier: Apache-2.0

package etherring

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// waiter puts a goroutine to sleep in poll(2), at the socket and at an eventfd that wakes it for
// everything else. Between two waits nothing is registered with the kernel: frames wake nobody then.
type waiter struct {
	event    int // eventfd
	deadline pollwait.Deadline

	mu     sync.Mutex
	asleep bool
	woken  bool // by wake, and not yet taken
	closed bool
	idle   sync.Cond // not asleep any more
}

func (w *waiter) init() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	w.event = fd
	w.idle.L = &w.mu
	return nil
}

// Wait sleeps until a frame has come, the deadline passes, or Wake is called; with writable also until
// Send may take more.
func (s *Socket) Wait(writable bool) error {
	events := int16(unix.POLLIN)
	if writable {
		events |= unix.POLLOUT
	}
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.closed:
			return net.ErrClosed
		case w.woken:
			w.woken = false
			return nil
		}
		left := time.Duration(-1)
		if at := w.deadline.Get(); at != 0 {
			if left = at.Until(); left <= 0 {
				return nil
			}
		}
		fds := [2]unix.PollFd{{Fd: int32(w.event), Events: unix.POLLIN}, {Fd: int32(s.fd), Events: events}}
		w.asleep = true
		w.mu.Unlock()
		err := poll(fds[:], left)
		w.mu.Lock()
		w.asleep = false
		w.idle.Broadcast()
		if fds[0].Revents != 0 {
			w.drain()
		}
		if err != nil {
			return err
		}
		if fds[1].Revents != 0 && !w.closed {
			w.woken = false
			return nil
		}
	}
}

// Doze sleeps until a frame has come, or for a time.
func (s *Socket) Doze(d time.Duration) {
	_ = poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, d)
}

// poll is ppoll(2); a negative time is no limit. What a signal interrupts ends as if nothing had come.
func poll(fds []unix.PollFd, left time.Duration) error {
	var limit *unix.Timespec
	if left >= 0 {
		ts := unix.NsecToTimespec(int64(left))
		limit = &ts
	}
	_, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(limit)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return os.NewSyscallError("ppoll", errno)
	}
	return nil
}

// SetDeadline sets when a wait ends at the latest, the present one too; the zero time is never.
func (s *Socket) SetDeadline(t time.Time) {
	if s.wait.deadline.Set(t) {
		s.wait.mu.Lock()
		defer s.wait.mu.Unlock()
		if s.wait.asleep {
			s.wait.signal() // it polls again, until then
		}
	}
}

// Wake ends the present wait, or the next one.
func (s *Socket) Wake() {
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.asleep {
		w.signal()
	}
}

// signal ends the present poll; mu is held.
func (w *waiter) signal() {
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(w.event), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// drain undoes signal.
func (w *waiter) drain() {
	var count uint64
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(w.event), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
}

// close ends waits for good, and returns when nobody is in one.
func (w *waiter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for w.asleep {
		w.signal()
		w.idle.Wait()
	}
	unix.Close(w.event)
}
