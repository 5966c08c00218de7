// SPDX-License-Identifier: Apache-2.0

package etherring

import (
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// waiter puts a goroutine to sleep in poll(2), at the socket and at an eventfd that wakes it for
// everything else. Between two waits nothing is registered with the kernel: frames wake no thread then.
type waiter struct {
	event    *pollwait.Event
	deadline pollwait.Deadline

	mu     sync.Mutex
	asleep bool
	polled bool // from BeginWait to EndWait
	woken  bool // by wake, and not yet taken
	closed bool
	idle   sync.Cond // not asleep any more
}

func (w *waiter) init() error {
	w.idle.L = &w.mu
	var err error
	w.event, err = pollwait.NewEvent()
	return err
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
		left := w.deadline.Left()
		if left == 0 {
			return nil
		}
		fds := [2]unix.PollFd{{Fd: w.event.FD(), Events: unix.POLLIN}, {Fd: int32(s.fd), Events: events}}
		w.asleep = true
		w.mu.Unlock()
		_, err := pollwait.Poll(fds[:], left)
		w.mu.Lock()
		w.asleep = false
		w.idle.Broadcast()
		if fds[0].Revents != 0 {
			w.event.Drain()
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

// BeginWait is Wait up to where it sleeps: a thread then does so by itself, with poll(2), at the set that BeginWait
// fills. Until EndWait no other goroutine waits. BeginWait returns false if there is no need to sleep.
func (s *Socket) BeginWait(writable bool, at *pollwait.Set) bool {
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.deadline.Left()
	if w.closed || w.woken || left == 0 {
		w.woken = false
		return false
	}
	*at = pollwait.Set{Event: int(w.event.FD()), Read: append(at.Read[:0], s.fd), Write: -1, Limit: left}
	if writable {
		at.Write = s.fd
	}
	w.polled = true
	return true
}

// EndWait ends BeginWait's wait. readable says that Event was found readable; otherwise it stays so if it is.
func (s *Socket) EndWait(readable bool) {
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polled, w.woken = false, false
	if readable {
		w.event.Drain()
	}
}

// Park sleeps until a frame has come, or for a time.
func (s *Socket) Park(d time.Duration) {
	_, _ = pollwait.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, d)
}

// SetDeadline sets when a wait ends at the latest, the present one too; the zero time is never.
func (s *Socket) SetDeadline(t time.Time) {
	if s.wait.deadline.Set(t) {
		s.wait.mu.Lock()
		defer s.wait.mu.Unlock()
		if s.wait.asleep || s.wait.polled {
			s.wait.event.Ring() // it polls again, until then
		}
	}
}

// Wake ends the present wait, or the next one.
func (s *Socket) Wake() {
	w := &s.wait
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.asleep || w.polled {
		w.event.Ring()
	}
}

// close ends waits for good, and returns when no goroutine is in one.
func (w *waiter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for w.asleep {
		w.event.Ring()
		w.idle.Wait()
	}
	w.event.Close()
}
