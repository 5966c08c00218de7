// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import "C"

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/sigstack"
)

// rsTable finds sockets by their numbers without a lock. Each number is an eventfd's, which reserves it.
type rsTable struct {
	mu    sync.Mutex
	slots atomic.Pointer[[]atomic.Pointer[rsock]]
}

var rsocks rsTable

func (t *rsTable) get(fd C.int) *rsock {
	sigstack.Reserve()
	slots := t.slots.Load()
	if slots == nil || fd < 0 || int(fd) >= len(*slots) {
		return nil
	}
	return (*slots)[fd].Load()
}

// put gives a socket a number. The lock is held.
func (t *rsTable) put(fd int, s *rsock) {
	slots := t.slots.Load()
	if slots == nil || fd >= len(*slots) {
		grown := make([]atomic.Pointer[rsock], max(64, 2*fd))
		if slots != nil {
			for i := range *slots {
				grown[i].Store((*slots)[i].Load())
			}
		}
		t.slots.Store(&grown)
		slots = &grown
	}
	(*slots)[fd].Store(s)
	s.numbers++
}

// drop frees a number, and returns its socket; nil: another thread has. last: it was the socket's last number.
func (t *rsTable) drop(fd int) (s *rsock, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s = t.get(C.int(fd)); s == nil {
		return nil, false
	}
	(*t.slots.Load())[fd].Store(nil)
	s.numbers--
	return s, s.numbers == 0
}

// newRsock creates a socket and its first number.
func newRsock(family int, stream bool) (int, *rsock, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return -1, nil, err
	}
	s := &rsock{family: family, stream: stream, opt: defaultRsOptions()}
	rsocks.mu.Lock()
	rsocks.put(fd, s)
	rsocks.mu.Unlock()
	return fd, s, nil
}

// rj_rs_dup makes a number that the system has duplicated one of the same socket.
//
//export rj_rs_dup
func rj_rs_dup(fd, to C.int) C.int {
	rsocks.mu.Lock()
	defer rsocks.mu.Unlock()
	s := rsocks.get(fd)
	if s == nil || to < 0 || rsocks.get(to) != nil {
		return -C.int(syscall.EBADF)
	}
	rsocks.put(int(to), s)
	return 0
}

// rj_rs_same reports whether two numbers belong to one socket.
//
//export rj_rs_same
func rj_rs_same(a, b C.int) C.int {
	if s := rsocks.get(a); s != nil && s == rsocks.get(b) {
		return 1
	}
	return 0
}
