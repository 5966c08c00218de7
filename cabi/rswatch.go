// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <poll.h>
// #include <sys/epoll.h>
// #include "rswatch.h"
import "C"

// rj_rs_watch finds up to room sockets of a list that have events for epoll_wait, and has all of them write to waker
// when they have news. It begins at first, so that none is always the last. more: there are others.
//
//export rj_rs_watch
func rj_rs_watch(list *C.struct_rj_watch, n, first, room, waker C.int, more *C.int) (found C.int) {
	*more = 0
	watches, _ := sliceOf(list, n)
	for i := range watches {
		w := &watches[(int(first)+i)%len(watches)]
		w.ready = 0
		s := rsocks.get(w.fd)
		if s == nil || w.events == 0 {
			continue
		}
		s.addWaker(int(waker))
		received, refused := C.uint32_t(s.received.Load()), C.uint32_t(s.refused.Load())
		state := epollState(s.poll(int(w.events), true), uint32(w.events))
		events := state
		if w.events&C.EPOLLET != 0 {
			events = edges(state, uint32(w.state), received != w.received, refused != w.refused)
			w.state &= C.uint32_t(state) // a condition that has ended is an edge when it comes again
		}
		switch {
		case events == 0:
		case found == room:
			*more = 1
		default:
			found++
			w.ready, w.state = C.uint32_t(events), C.uint32_t(state)
			w.received, w.refused = received, refused
			if w.events&C.EPOLLONESHOT != 0 {
				w.events = 0
			}
		}
	}
	return found
}

// epollState converts the events of poll, which are the same bits.
func epollState(got int, asked uint32) uint32 {
	state := uint32(got) &^ C.POLLNVAL // of one that is being closed
	if state&C.EPOLLHUP != 0 {
		state |= C.EPOLLRDHUP & asked
	}
	return state
}

// edges returns the changes in the state of an edge-triggered socket. A program that has received gets another edge if
// there is more, because it need not have noticed that there was nothing in between; a program that could not send gets
// one once it can.
func edges(state, before uint32, received, refused bool) uint32 {
	if received {
		before &^= pollIn
	}
	if refused {
		before &^= pollOut
	}
	if state&^before == 0 {
		return 0
	}
	return state
}

// rj_rs_unwatch has a socket write to a waker no more.
//
//export rj_rs_unwatch
func rj_rs_unwatch(fd, waker C.int) {
	if s := rsocks.get(fd); s != nil {
		s.removeWaker(int(waker))
	}
}
