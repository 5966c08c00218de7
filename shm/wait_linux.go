// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// waker is how threads of this process wake each other from a sleep, which is for peers to end: by the
// word of the bell.
type waker struct {
	word    *uint32
	woken   atomic.Bool  // wake was called, and no Wait has ended since
	waiting atomic.Int32 // in Wait
	mu      sync.Mutex   // over the use of word and its end
	ended   bool
}

// wake ends the Wait that there is, or the next one.
func (w *waker) wake() {
	if w.woken.Swap(true) || w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		atomic.StoreUint32(w.word, 0)
		shmem.WakeAll(w.word)
	}
}

// wait sleeps until a peer or wake ends that, or for a time.
func (w *waker) wait(limit time.Duration) {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	if !w.woken.Load() {
		shmem.WaitWhile(w.word, 1, limit)
	}
	w.woken.Store(false)
}

// end has wake leave the word alone, which is about to be unmapped.
func (w *waker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// Wait blocks until a peer wakes this process, or a socket has something.
func (n *network) Wait() error {
	if n.closed.Load() {
		return unix.EBADF
	}
	limit := maxSleep
	if d := n.deadline.Get(); d != 0 {
		limit = min(limit, d.Until())
	}
	n.waker.wait(limit)
	n.bell.Wake()
	return nil
}

// Doze waits until a peer wakes this process, or for the given time.
func (n *network) Doze(d time.Duration) { shmem.WaitWhile(n.waker.word, 1, d) }

// SetDeadline sets when Wait returns at the latest.
func (n *network) SetDeadline(t time.Time) {
	if n.deadline.Set(t) {
		n.Wake()
	}
}

// Wake wakes Wait.
func (n *network) Wake() { n.waker.wake() }

// listen has Go's poller tell when the sockets have something. Whoever waits does so for the bell only.
func (n *network) listen() error {
	if err := unix.SetNonblock(n.epoll, true); err != nil { // what os asks for
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
