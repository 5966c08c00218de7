// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cqwait.h"
import "C"

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rj_await_completion moves data until there is a completion event, and takes that. It returns NULL if the thread is
// to sleep first: in poll, if how has descriptors, or else in read. It is called again after poll.
//
//export rj_await_completion
func rj_await_completion(h C.uint64_t, how *C.struct_rj_wait) unsafe.Pointer {
	readable := how.n > 0 && how.fds[0].revents != 0
	how.n = 0
	ch := channels.get(uint64(h))
	if ch == nil || ch.sleeper == nil {
		return nil
	}
	if how.own == 0 {
		if ch.busy.Swap(true) {
			return nil
		}
		how.own = 1
	}
	ch.events.hold()
	sleep := ch.sleeper.PollSleep(&ch.wait, readable)
	c, found, _ := ch.events.take(func(c unsafe.Pointer) bool { report(c); return true })
	ch.events.release()
	if found || !sleep || !ch.describe(how) {
		ch.leave()
		how.own = 0
	}
	return ch.taken(c)
}

// describe says how the thread is to sleep. It returns false if there are too many descriptors.
func (ch *channel) describe(how *C.struct_rj_wait) bool {
	add := func(fd int, events C.short) bool {
		if int(how.n) == len(how.fds) {
			return false
		}
		how.fds[how.n] = C.struct_pollfd{fd: C.int(fd), events: events}
		how.n++
		return true
	}
	w := &ch.wait
	add(w.Event, unix.POLLIN)
	add(ch.events.fd, unix.POLLIN)
	if w.Write >= 0 {
		add(w.Write, unix.POLLOUT)
	}
	for _, fd := range w.Read {
		if !add(fd, unix.POLLIN) {
			how.n = 0
			return false
		}
	}
	how.limited = 0
	if w.Limit >= 0 {
		how.limited = 1
		t := unix.NsecToTimespec(int64(w.Limit))
		how.limit.tv_sec, how.limit.tv_nsec = C.time_t(t.Sec), C.long(t.Nsec)
	}
	return true
}

// leave ends the wait of the thread that has it.
func (ch *channel) leave() {
	if ch.sleeper == nil || !ch.busy.Load() {
		return
	}
	ch.sleeper.LeavePoll(&ch.wait)
	ch.busy.Store(false)
}

// rj_leave_completion ends the wait of a thread that does not call rj_await_completion again.
//
//export rj_leave_completion
func rj_leave_completion(h C.uint64_t) {
	if ch := channels.get(uint64(h)); ch != nil {
		ch.leave()
	}
}
