// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// waiter puts a goroutine to sleep, together with its thread, in poll(2) on the sockets and on an
// eventfd that wakes it for everything else. Between two waits nothing is registered with the
// kernel. So a packet wakes no thread while the program polls, and costs its sender nothing.
//
// No packet is lost: poll checks each socket after it has put itself on the socket's wait queue.
// docs/decisions/0001-waiting-for-packets.md compares this with the alternatives.
type waiter struct {
	event *pollwait.Event // read only when signalled, so never left readable

	mu        sync.Mutex
	deadline  time.Time // as the caller set it; zero: none
	until     time.Time // the deadline that the current poll observes itself; zero: none
	waiting   bool
	woken     bool // by wake, and not yet consumed
	signalled bool // event is readable
	closed    bool

	// timer signals the current wait for a deadline that poll does not observe. It may be early.
	// Then it is set again, which is cheaper than moving it each time the deadline moves.
	timer   *time.Timer
	timerAt time.Time // zero: not set

	fds []unix.PollFd // used by wait only
}

// pollHorizon divides deadlines. poll observes nearer ones, because Go's timers are only accurate to a
// millisecond. The timer observes later ones, because a timeout makes poll more expensive.
const pollHorizon = 5 * time.Millisecond

func newWaiter() (*waiter, error) {
	event, err := pollwait.NewEvent()
	if err != nil {
		return nil, err
	}
	w := &waiter{event: event}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	return w, nil
}

// wait sleeps until a port is ready, the deadline passes, or wake is called, or until the socket
// full can take more to send, unless that is 0.
func (w *waiter) wait(ports []port, full int) error {
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
		left, ok := w.arm()
		if !ok {
			return nil
		}
		w.waiting = true
		w.mu.Unlock()
		ready, err := w.poll(ports, full, left)
		w.mu.Lock()
		w.waiting = false
		w.until = time.Time{}
		if w.signalled {
			w.signalled = false
			w.event.Drain()
		}
		if err != nil {
			return err
		}
		if ready && !w.closed {
			w.woken = false
			return nil
		}
	}
}

// begin is wait up to where it sleeps. It returns false if there is no need to sleep.
func (w *waiter) begin(ports []port, full int, at *pollwait.Set) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.woken {
		w.woken = false
		return false
	}
	left, ok := w.arm()
	if !ok {
		return false
	}
	w.waiting = true
	*at = pollwait.Set{Event: int(w.event.FD()), Read: at.Read[:0], Write: -1, Limit: left}
	for _, p := range ports {
		at.Read = append(at.Read, p.fd)
	}
	if full > 0 {
		at.Write = full
	}
	return true
}

// end ends the wait of begin. readable says that the event was found readable; otherwise it stays so if it is.
func (w *waiter) end(readable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.woken = false, false
	w.until = time.Time{}
	if readable && w.signalled {
		w.signalled = false
		w.event.Drain()
	}
}

// arm prepares for the deadline. It returns how long poll may sleep, negative for unlimited, and
// false if the deadline has passed. mu is held.
func (w *waiter) arm() (left time.Duration, ok bool) {
	if w.deadline.IsZero() {
		return -1, true
	}
	left = time.Until(w.deadline)
	if left <= 0 {
		return 0, false
	}
	if left < pollHorizon {
		w.until = w.deadline
		return left, true
	}
	w.setTimer(left)
	return -1, true
}

// setTimer makes the timer fire at the deadline or before. mu is held.
func (w *waiter) setTimer(left time.Duration) {
	if w.timerAt.IsZero() || w.deadline.Before(w.timerAt) {
		w.timerAt = w.deadline
		w.timer.Reset(left)
	}
}

// expire is the timer's function.
func (w *waiter) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timerAt = time.Time{}
	if w.waiting {
		w.observe()
	}
}

// observe applies a deadline that was set during a wait. mu is held.
func (w *waiter) observe() {
	if w.deadline.IsZero() || !w.until.IsZero() && !w.deadline.Before(w.until) {
		return // poll ends no later than that, and wait then checks again
	}
	if left := time.Until(w.deadline); left >= pollHorizon {
		w.setTimer(left)
	} else {
		w.signal() // wait polls again, with this deadline
	}
}

// poll reports whether a port, or full, is ready.
func (w *waiter) poll(ports []port, full int, left time.Duration) (bool, error) {
	w.fds = append(w.fds[:0], unix.PollFd{Fd: w.event.FD(), Events: unix.POLLIN})
	for _, p := range ports {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
	}
	if full > 0 {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(full), Events: unix.POLLOUT})
	}
	n, err := pollwait.Poll(w.fds, left)
	if err != nil {
		return false, fmt.Errorf("netio: wait: %w", err)
	}
	return n > 1 || n == 1 && w.fds[0].Revents == 0, nil
}

// signal ends the current poll. mu is held.
func (w *waiter) signal() {
	if w.signalled {
		return
	}
	w.signalled = true
	w.event.Ring()
}

func (w *waiter) setDeadline(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	if w.waiting {
		w.observe()
	}
}

func (w *waiter) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	if w.waiting {
		w.signal()
	}
}

// close ends a pending wait, for good.
func (w *waiter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.timer.Stop()
	if w.waiting {
		w.signal()
	}
}

// park sleeps until a port is ready, or for a time.
func park(ports []port, d time.Duration) {
	var few [4]unix.PollFd
	fds := few[:0]
	for _, p := range ports {
		fds = append(fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
	}
	_, _ = pollwait.Poll(fds, d) // whatever ends it
}
