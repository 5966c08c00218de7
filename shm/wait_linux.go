// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// waker is how threads of this process wake each other from a sleep, which is for peers to end: by the
// word of the doorbell.
//
// A peer that breaks the rules can write to the word, so an alarm ends each sleep. For a limit of the sleep
// itself the system would set a timer of the processor, twice for each message: that takes up to 1 µs.
type waker struct {
	asked   atomic.Bool // the sockets may have something, or the alarm has expired
	expired atomic.Bool // the alarm has, and not all cold links were looked at since
	word    *uint32
	woken   atomic.Bool  // wake was called, and no Wait has ended since
	waiting atomic.Int32 // in Wait
	alarm   *time.Timer
	rings   atomic.Int64 // a pollwait.Instant: when the alarm is due
	mu      sync.Mutex   // over the use of word and its end
	ended   bool
}

func (w *waker) init(word *uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.word = word
	w.alarm = time.AfterFunc(maxSleep, w.ring)
	w.rings.Store(int64(pollwait.Now() + pollwait.Instant(maxSleep)))
}

// ring ends the sleep that there is, has the next passes look at cold links, and comes again.
func (w *waker) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.rings.Store(int64(pollwait.Now() + pollwait.Instant(maxSleep))) // before it looks: the next waiter knows
	w.alarm.Reset(maxSleep)
	w.expired.Store(true)
	w.asked.Store(true)
	if w.waiting.Load() > 0 {
		w.end()
	}
}

// wake ends the Wait that there is, or the next one.
func (w *waker) wake() {
	if w.woken.Swap(true) || w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.end()
	}
}

// end ends a sleep. mu is held.
func (w *waker) end() {
	atomic.StoreUint32(w.word, 0)
	shmem.WakeAll(w.word)
}

// wait sleeps until a peer, wake or the alarm ends that, or a deadline passes.
func (w *waker) wait(deadline pollwait.Instant) {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	limit := time.Duration(-1)
	if deadline != 0 && deadline < pollwait.Instant(w.rings.Load()) {
		limit = max(0, deadline.Until())
	}
	if !w.woken.Load() {
		shmem.WaitWhile(w.word, 1, limit)
	}
	w.woken.Store(false)
}

// stop has wake and the alarm leave the word alone, which is about to be unmapped.
func (w *waker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.alarm != nil { // else the network could not be opened
		w.alarm.Stop()
	}
}

// Wait blocks until a peer wakes this process, or a socket has something.
func (n *network) Wait() error {
	if n.closed.Load() {
		return unix.EBADF
	}
	n.waker.wait(n.deadline.Get())
	n.doorbell.Wake()
	return nil
}

func (n *network) CanPark() bool { return true }

// Park waits until a peer wakes this process, or for the given time.
func (n *network) Park(d time.Duration) { shmem.WaitWhile(n.waker.word, 1, d) }

// SetDeadline sets when Wait returns at the latest.
func (n *network) SetDeadline(t time.Time) {
	if n.deadline.Set(t) {
		n.Wake()
	}
}

// Wake wakes Wait.
func (n *network) Wake() { n.waker.wake() }

// listen has Go's poller watch the sockets. A thread that waits does so for the doorbell only.
func (n *network) listen() error {
	if err := unix.SetNonblock(n.epoll, true); err != nil { // package os requires it
		return os.NewSyscallError("fcntl", err)
	}
	n.sockets = os.NewFile(uintptr(n.epoll), "epoll")
	n.heard = make(chan struct{})
	conn, err := n.sockets.SyscallConn()
	if err != nil {
		close(n.heard)
		return err
	}
	go func() {
		defer close(n.heard)
		conn.Read(func(uintptr) bool { // until the network is closed
			n.asked.Store(true)
			n.Wake()
			return false
		})
	}()
	return nil
}
