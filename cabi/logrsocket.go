// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <poll.h>
// #include <sys/socket.h>
// #include <sys/time.h>
// #include <sys/uio.h>
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// The arguments of rsockets.
func init() {
	structs["socket"] = func(_ *loggedCall, v uint64) any {
		const flags = syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC
		name := calllog.Named("socket_type", v&^flags)
		if v&syscall.SOCK_NONBLOCK != 0 {
			name += "|SOCK_NONBLOCK"
		}
		if v&syscall.SOCK_CLOEXEC != 0 {
			name += "|SOCK_CLOEXEC"
		}
		return name
	}
	structs["pollfds"] = func(l *loggedCall, p uint64) any {
		return elementsOf(p, l.arg("nfds"), func(f *C.struct_pollfd) any {
			return calllog.Fields{{Name: "fd", Value: int32(f.fd)},
				{Name: "events", Value: calllog.Named("poll_mask", uint64(uint16(f.events)))},
				{Name: "revents", Value: calllog.Named("poll_mask", uint64(uint16(f.revents)))}}
		})
	}
	structs["iovec"] = func(l *loggedCall, p uint64) any { return vectors(p, l.arg("iovcnt")) }
	structs["msghdr"] = func(_ *loggedCall, p uint64) any {
		return of(p, func(m *C.struct_msghdr) any {
			f := calllog.Fields{}
			if m.msg_name != nil {
				f = append(f, calllog.Arg{Name: "msg_name", Value: socketAddress(uint64(uintptr(m.msg_name)))})
			}
			return append(f, calllog.Arg{Name: "msg_iov", Value: vectors(address(m.msg_iov), uint64(m.msg_iovlen))})
		})
	}
	structs["timeval"] = func(_ *loggedCall, p uint64) any {
		return of(p, func(t *C.struct_timeval) any {
			return calllog.Fields{{Name: "tv_sec", Value: int64(t.tv_sec)}, {Name: "tv_usec", Value: int64(t.tv_usec)}}
		})
	}
	structs["sockopt_value"] = func(l *loggedCall, p uint64) any {
		if l.arg("level") == syscall.SOL_SOCKET && l.arg("optname") == syscall.SO_LINGER {
			return of(p, func(o *C.struct_linger) any {
				return calllog.Fields{{Name: "l_onoff", Value: int32(o.l_onoff)},
					{Name: "l_linger", Value: int32(o.l_linger)}}
			})
		}
		return of(p, func(v *int32) any { return *v })
	}
}

// socketOption returns the name of an option of the level that the call names.
func (l *loggedCall) socketOption(option uint64) any {
	return calllog.SocketOption(uint64(uint32(l.arg("level"))), uint64(uint32(option)))
}

func vectors(p, n uint64) any {
	return elementsOf(p, n, func(v *C.struct_iovec) any {
		return calllog.Fields{{Name: "iov_base", Value: calllog.Pointer(uint64(uintptr(v.iov_base)))},
			{Name: "iov_len", Value: uint64(v.iov_len)}}
	})
}

// elementsOf returns the first elements of an array of n.
func elementsOf[T any](p, n uint64, one func(*T) any) any {
	var size T
	out := calllog.List{}
	for i := range n {
		if i == calllog.MaxListed {
			return append(out, calllog.Symbol("…"))
		}
		out = append(out, of(p+i*uint64(unsafe.Sizeof(size)), one))
	}
	return out
}

// polls reports whether a call of rsockets does not wait: programs make such calls again and again, and most find
// nothing.
func (l *loggedCall) polls() bool {
	switch l.call.Name {
	case "rpoll", "repoll_wait":
		return int32(l.arg("timeout")) == 0
	case "rselect":
		t := at[C.struct_timeval](l.arg("timeout"))
		return t != nil && t.tv_sec == 0 && t.tv_usec == 0
	case "raccept", "rrecv", "rrecvfrom", "rrecvmsg", "rsend", "rsendto", "rsendmsg", "rread", "rreadv", "rwrite",
		"rwritev":
		return l.arg("flags")&syscall.MSG_DONTWAIT != 0 || nonblocking(C.int(int32(l.arg("socket"))))
	}
	return false
}

// foundNothing reports whether such a call has found nothing, or no room.
func (l *loggedCall) foundNothing(result int64, err syscall.Errno) bool {
	switch l.call.Name {
	case "rpoll", "rselect", "repoll_wait":
		return result == 0
	}
	return result < 0 && err == syscall.EAGAIN
}

// nonblocking reports whether an rsocket has O_NONBLOCK.
func nonblocking(fd C.int) bool {
	s := rsocks.get(fd)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flags&syscall.O_NONBLOCK != 0
}
