// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"encoding/binary"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// fdQueue is a queue of events behind a file descriptor that a program can wait on. Each event is
// worth one read of 8 bytes, which blocks or not as the program has set the descriptor. Then pop
// takes the event itself.
type fdQueue[E any] struct {
	fd     int // an eventfd in semaphore mode: each read counts down by one
	mu     sync.Mutex
	events []E
	held   int // threads that are about to take an event without a read
	owed   int // how many of events the descriptor does not count
}

func newFDQueue[E any]() (*fdQueue[E], error) {
	fd, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &fdQueue[E]{fd: fd}, nil
}

func (q *fdQueue[E]) push(e E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fd < 0 {
		return
	}
	q.events = append(q.events, e)
	if q.held > 0 {
		q.owed++
		return
	}
	q.count(1)
}

// count adds n to the descriptor's count. mu is held.
func (q *fdQueue[E]) count(n int) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(n))
	syscall.Write(q.fd, b[:]) // fails only beyond 2^64 events
}

// discount takes n events off the descriptor's present or later count. mu is held.
func (q *fdQueue[E]) discount(n int) {
	owed := min(n, q.owed)
	q.owed -= owed
	var b [8]byte
	for range n - owed {
		// Non-blocking, even if the program has set otherwise: a reader may have been faster.
		unix.Preadv2(q.fd, [][]byte{b[:]}, -1, unix.RWF_NOWAIT)
	}
}

// hold announces that the caller takes an event if one comes: the descriptor does not have to count it. The caller
// ends that with release, and does not sleep in between.
func (q *fdQueue[E]) hold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held++
}

// release ends hold. The descriptor counts the events that the caller has left.
func (q *fdQueue[E]) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held--; q.held == 0 && q.owed > 0 && q.fd >= 0 {
		q.count(q.owed)
		q.owed = 0
	}
}

// empty reports whether there is no event.
func (q *fdQueue[E]) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.events) == 0
}

// pop takes the oldest event after a read. It returns false if the event was removed meanwhile.
// count counts it for its object, whose destruction then waits until the program has acknowledged
// it. An event is either counted or removed.
func (q *fdQueue[E]) pop(count func(E)) (e E, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return e, false
	}
	e = q.events[0]
	q.events = slices.Delete(q.events, 0, 1)
	q.owed = min(q.owed, len(q.events))
	count(e)
	return e, true
}

// remove removes the events of an object that is destroyed.
func (q *fdQueue[E]) remove(match func(E) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.events)
	q.events = slices.DeleteFunc(q.events, match)
	q.discount(n - len(q.events))
}

// take takes the oldest event without a read, if the program has room for it: ok says so. found is false
// if there is none.
func (q *fdQueue[E]) take(room func(E) bool) (e E, found, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return e, false, false
	}
	if e = q.events[0]; !room(e) {
		return e, true, false
	}
	q.events = slices.Delete(q.events, 0, 1)
	q.discount(1)
	return e, true, true
}

// all returns the untaken events.
func (q *fdQueue[E]) all() []E {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.events)
}

func (q *fdQueue[E]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	syscall.Close(q.fd)
	q.fd = -1
}
