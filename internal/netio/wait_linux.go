// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waiter puts a goroutine to sleep until one of some sockets is ready.
//
//	Go's network poller ── epoll of this waiter ── sockets (EPOLLONESHOT)
//
// A socket in Go's own poller would wake a thread for every packet, also while
// the program polls. So the sockets are in an epoll instance of their own,
// which is quiet except between arming and the first event. That instance is
// itself a file in Go's poller, which brings deadlines and wake-ups.
//
// No event is lost: arming is level-triggered, so what arrived before it shows
// at once. See docs/decisions/0001-waiting-for-packets.md.
type waiter struct {
	file *os.File
	raw  syscall.RawConn

	mu       sync.Mutex
	deadline time.Time // as the caller wants it
	set      time.Time // as the file has it
	waiting  bool
	woken    bool

	// What one wait uses, and no other goroutine.
	ports   []port
	mask    uint32
	armed   bool
	failure error
	events  [8]unix.EpollEvent
	step    func(fd uintptr) bool
	disarm  func(fd uintptr)
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

func newWaiter(fd int) (*waiter, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// os.NewFile gives a file to the poller only if it is non-blocking.
	if err := unix.SetNonblock(ep, true); err != nil {
		unix.Close(ep)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &waiter{file: os.NewFile(uintptr(ep), "epoll")}
	w.step, w.disarm = w.stepFile, w.disarmFile
	if err := w.file.SetReadDeadline(time.Time{}); err != nil {
		w.file.Close()
		return nil, err
	}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	if err := w.add(fd); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// add makes the waiter know a socket, disarmed.
func (w *waiter) add(fd int) error {
	return w.control(unix.EPOLL_CTL_ADD, fd)
}

// remove makes the waiter forget a socket.
func (w *waiter) remove(fd int) {
	_ = w.control(unix.EPOLL_CTL_DEL, fd) // fails only if it is not there
}

func (w *waiter) control(op, fd int) error {
	var err error
	if e := w.raw.Control(func(ep uintptr) { err = unix.EpollCtl(int(ep), op, fd, event(fd, 0)) }); e != nil {
		return net.ErrClosed
	}
	return os.NewSyscallError("epoll_ctl", err)
}

func event(fd int, mask uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: mask | unix.EPOLLONESHOT, Fd: int32(fd)}
}

// wait sleeps until a port is ready, the deadline, or wake.
func (w *waiter) wait(ports []port, writable bool) error {
	if !w.begin() {
		return nil
	}
	w.ports, w.armed, w.failure = ports, false, nil
	w.mask = unix.EPOLLIN
	if writable {
		w.mask |= unix.EPOLLOUT
	}
	err := w.raw.Read(w.step)
	w.end()
	switch {
	case err == nil:
		return w.failure
	case errors.Is(err, os.ErrDeadlineExceeded):
		if w.armed {
			_ = w.raw.Control(w.disarm) // fails only if closed, which the next call says
		}
		return nil
	}
	return net.ErrClosed
}

// begin enters a wait, unless a wake-up is pending: that is used up instead.
func (w *waiter) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken {
		w.woken = false
		return false
	}
	w.waiting = true
	w.setFile(w.deadline)
	return true
}

func (w *waiter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.woken = false, false
}

// setFile sets the file's deadline. Its only error is that the file is closed,
// which the wait finds out.
func (w *waiter) setFile(t time.Time) {
	if t != w.set {
		w.set = t
		_ = w.file.SetReadDeadline(t)
	}
}

func (w *waiter) setDeadline(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	if w.waiting && !w.woken {
		w.setFile(t)
	}
}

func (w *waiter) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken {
		return
	}
	w.woken = true
	if w.waiting {
		w.setFile(past)
	}
}

// stepFile is called by the poller: first to arm the sockets, then each time
// that the epoll instance became readable. It returns true when the wait is
// over.
func (w *waiter) stepFile(ep uintptr) bool {
	if !w.armed {
		w.armed = true
		w.failure = w.arm(int(ep), w.mask)
		return w.failure != nil
	}
	// Taking the event is what disarms the socket that has it.
	n, err := unix.EpollWait(int(ep), w.events[:], 0)
	if err != nil && err != unix.EINTR {
		w.failure = os.NewSyscallError("epoll_wait", err)
		return true
	}
	if n <= 0 {
		return false
	}
	if len(w.ports) > 1 {
		w.disarmFile(ep)
	}
	return true
}

func (w *waiter) disarmFile(ep uintptr) { _ = w.arm(int(ep), 0) }

// arm sets what wakes the waiter; 0 is nothing. A socket that is gone was left
// a moment ago (removePort), and nobody waits for it.
func (w *waiter) arm(ep int, mask uint32) error {
	for i := range w.ports {
		ev := unix.EpollEvent{Events: mask | unix.EPOLLONESHOT, Fd: int32(w.ports[i].fd)}
		err := unix.EpollCtl(ep, unix.EPOLL_CTL_MOD, w.ports[i].fd, &ev)
		if err != nil && err != unix.ENOENT && err != unix.EBADF {
			return os.NewSyscallError("epoll_ctl", err)
		}
		mask &^= unix.EPOLLOUT // only the first one sends
	}
	return nil
}

// close ends a wait under way, for good.
func (w *waiter) close() { _ = w.file.Close() }
