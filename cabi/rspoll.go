// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <poll.h>
import "C"

import (
	"github.com/ramjet-rdma/ramjet/rnet"
)

//export rj_rs_poll
func rj_rs_poll(fds *C.struct_pollfd, n, waker C.int, rest *C.int) C.int {
	ready := C.int(0)
	*rest = 0
	list, _ := sliceOf(fds, n)
	for i := range list {
		p := &list[i]
		p.revents = 0
		if p.fd < 0 {
			continue
		}
		s := rsocks.get(p.fd)
		if s == nil {
			*rest++
			continue
		}
		if waker >= 0 {
			s.addWaker(int(waker))
		}
		if p.revents = C.short(s.poll(int(p.events), waker >= 0)); p.revents != 0 {
			ready++
		}
	}
	return ready
}

//export rj_rs_split
func rj_rs_split(fds *C.struct_pollfd, n C.int, others *C.struct_pollfd) {
	out, _ := sliceOf(others, n)
	list, _ := sliceOf(fds, n)
	for i, p := range list {
		out[i] = p
		out[i].revents = 0
		if rsocks.get(p.fd) != nil {
			out[i].fd = -1
		}
	}
}

//export rj_rs_disarm
func rj_rs_disarm(fds *C.struct_pollfd, n, waker C.int) {
	list, _ := sliceOf(fds, n)
	for _, p := range list {
		if s := rsocks.get(p.fd); s != nil {
			s.removeWaker(int(waker))
		}
	}
}

const (
	pollIn  = C.POLLIN | C.POLLRDNORM
	pollOut = C.POLLOUT | C.POLLWRNORM
)

// poll returns which of events are ready, and of the events that are always reported.
func (s *rsock) poll(events int, arm bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == rsClosed { // it was closed since the caller found it: no event will wake it
		return C.POLLNVAL
	}
	if !s.stream {
		return s.pollPackets(arm) & (events | C.POLLERR)
	}
	switch s.state {
	case rsListening:
		if len(s.listen.ready) > 0 {
			return pollIn & events
		}
		return 0
	case rsFailed:
		return (pollIn|pollOut)&events | C.POLLERR
	case rsConnected:
	default:
		return 0
	}
	var can rnet.Readiness
	if arm {
		can = s.conn.Arm()
	} else {
		can = s.conn.Ready()
	}
	got := 0
	if can&rnet.Readable != 0 || s.readShut {
		got |= pollIn
	}
	if can&rnet.Writable != 0 {
		got |= pollOut
	}
	got &= events
	if can&(rnet.PeerGone|rnet.Broken) != 0 {
		got |= C.POLLHUP
	}
	if can&rnet.Broken != 0 {
		got |= C.POLLERR
	}
	return got
}
