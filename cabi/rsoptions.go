// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <rdma/rsocket.h>
// #include <netinet/tcp.h>
import "C"

import (
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// rsOptions are the options set by rsetsockopt. Sockets that raccept returns inherit them.
type rsOptions struct {
	sendBuf, recvBuf     int // bytes, twice the program's values, as with other sockets
	sendQueue, recvQueue int
	inline, maps         int
	linger               C.struct_linger
	keepAlive            bool
	keepIdle             int // seconds
	reuse, noDelay       bool
	inlineOOB, only6     bool
}

// Defaults of rsockets.
const (
	rsKeepIdle = 7200
	rsMaxQueue = 0xfffe
)

func defaultRsOptions() rsOptions {
	return rsOptions{sendBuf: rnet.DefaultBuffer, recvBuf: rnet.DefaultBuffer, sendQueue: rnet.DefaultQueue,
		recvQueue: rnet.DefaultQueue, inline: rnet.DefaultInline, keepIdle: rsKeepIdle}
}

// fit converts the options to package rnet's. Values out of range become the nearest limit.
func (o *rsOptions) fit(dev *verbs.Device) rnet.Options {
	attr := dev.Query()
	clamp := func(v, low, high int) int { return min(max(v, low), high) }
	r := rnet.Options{
		SendBuffer: clamp(o.sendBuf, 4<<10, 1<<30),
		RecvBuffer: clamp(o.recvBuf, 4<<10, 1<<30),
		SendQueue:  clamp(o.sendQueue, 16, attr.MaxQPWR/2),
		RecvQueue:  clamp(o.recvQueue, 16, min(1<<14, attr.MaxQPWR/2)),
		Inline:     min(o.inline, attr.MaxInline),
		IOMaps:     o.maps,

		LockedThread: true,
	}
	if r.Inline == 0 {
		r.Inline = -1
	}
	if o.linger.l_onoff != 0 { // 0 seconds: drop data that has not arrived by now
		r.Linger = max(time.Duration(o.linger.l_linger)*time.Second, time.Nanosecond)
	}
	r.KeepAlive = o.keepAlivePeriod()
	return r
}

// keepAlivePeriod returns the period of SO_KEEPALIVE if it is shorter than the default. Connections
// always need one: with hardware, the kernel would report the death of a peer.
func (o *rsOptions) keepAlivePeriod() time.Duration {
	if idle := time.Duration(o.keepIdle) * time.Second; o.keepAlive && idle < rnet.DefaultKeepAlive {
		return idle
	}
	return rnet.DefaultKeepAlive
}

// option is the place of an option.
type option struct {
	flag   *bool
	number *int
	low    int  // minimum
	scale  bool // store twice the value
	early  bool // only before connecting
}

// option finds an option. It returns false if the option is not supported.
func (s *rsock) option(level, name C.int) (option, bool) {
	o := &s.opt
	switch level {
	case syscall.SOL_SOCKET:
		switch name {
		case syscall.SO_REUSEADDR:
			return option{flag: &o.reuse}, true
		case syscall.SO_KEEPALIVE:
			return option{flag: &o.keepAlive}, true
		case syscall.SO_OOBINLINE:
			return option{flag: &o.inlineOOB}, true
		case syscall.SO_SNDBUF:
			return option{number: &o.sendBuf, scale: true}, true
		case syscall.SO_RCVBUF:
			return option{number: &o.recvBuf, scale: true}, true
		}
	case syscall.IPPROTO_TCP:
		switch name {
		case syscall.TCP_NODELAY:
			return option{flag: &o.noDelay}, true
		case syscall.TCP_KEEPIDLE:
			return option{number: &o.keepIdle, low: 1}, true
		}
	case syscall.IPPROTO_IPV6:
		if name == syscall.IPV6_V6ONLY {
			return option{flag: &o.only6}, true
		}
	case C.SOL_RDMA:
		switch name {
		case C.RDMA_SQSIZE:
			return option{number: &o.sendQueue, low: 1, early: true}, true
		case C.RDMA_RQSIZE:
			return option{number: &o.recvQueue, low: 1, early: true}, true
		case C.RDMA_INLINE:
			return option{number: &o.inline, early: true}, true
		case C.RDMA_IOMAPSIZE:
			return option{number: &o.maps, early: true}, true
		}
	}
	return option{}, false
}

// transportOptions are hints to TCP, which are up to the transport.
var transportOptions = []C.int{syscall.TCP_KEEPCNT, syscall.TCP_KEEPINTVL, syscall.TCP_MAXSEG, syscall.TCP_CORK,
	syscall.TCP_QUICKACK, unix.TCP_USER_TIMEOUT}

//export rj_rs_set_option
func rj_rs_set_option(fd, level, name C.int, value unsafe.Pointer, length C.socklen_t) C.int {
	return withRsock(fd, func(s *rsock) error {
		if level == syscall.SOL_SOCKET && name == syscall.SO_LINGER {
			if length < C.sizeof_struct_linger {
				return syscall.EINVAL
			}
			s.opt.linger = *(*C.struct_linger)(value)
			return nil
		}
		if length < 4 {
			return syscall.EINVAL
		}
		v := int(*(*C.int)(value))
		if level == syscall.IPPROTO_TCP && slices.Contains(transportOptions, name) {
			return nil
		}
		o, known := s.option(level, name)
		switch {
		case !known:
			return syscall.ENOTSUP
		case o.early && s.state >= rsConnecting || o.number != nil && v < o.low:
			return syscall.EINVAL
		case o.flag != nil:
			*o.flag = v != 0
		case o.scale:
			*o.number = min(max(v, 0), 1<<28) * 2
		default:
			*o.number = min(v, rsMaxQueue)
		}
		if s.conn != nil && (o.flag == &s.opt.keepAlive || o.number == &s.opt.keepIdle) {
			s.conn.SetKeepAlivePeriod(s.opt.keepAlivePeriod())
		}
		return nil
	})
}

//export rj_rs_get_option
func rj_rs_get_option(fd, level, name C.int, value unsafe.Pointer, length *C.socklen_t) C.int {
	return withRsock(fd, func(s *rsock) error {
		if level == syscall.SOL_SOCKET && name == syscall.SO_LINGER {
			if *length < C.sizeof_struct_linger {
				return syscall.EINVAL
			}
			*(*C.struct_linger)(value), *length = s.opt.linger, C.sizeof_struct_linger
			return nil
		}
		if level == syscall.IPPROTO_TCP && name == syscall.TCP_INFO {
			return s.info(value, length)
		}
		if *length < 4 {
			return syscall.EINVAL
		}
		v, err := s.getOption(level, name)
		if err == nil {
			*(*C.int)(value), *length = C.int(v), 4
		}
		return err
	})
}

// info answers TCP_INFO with the state and the segment size. The rest is 0: programs such as iperf3 show the contents
// of their memory if the call fails.
func (s *rsock) info(value unsafe.Pointer, length *C.socklen_t) error {
	const established, closed, listening = 1, 7, 10 // the kernel's numbers
	info := C.struct_tcp_info{tcpi_state: closed, tcpi_snd_mss: C.__u32(s.maxSegment())}
	switch s.state {
	case rsConnected:
		info.tcpi_state = established
	case rsListening:
		info.tcpi_state = listening
	}
	out, valid := sliceOf((*byte)(value), min(*length, C.sizeof_struct_tcp_info))
	if !valid {
		return syscall.EFAULT
	}
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(&info)), C.sizeof_struct_tcp_info))
	*length = C.socklen_t(len(out))
	return nil
}

func (s *rsock) getOption(level, name C.int) (int, error) {
	switch {
	case level == syscall.SOL_SOCKET && name == syscall.SO_ERROR:
		err := s.err
		s.err = nil
		return int(rsErrno(err)), nil
	case level == syscall.SOL_SOCKET && name == syscall.SO_TYPE:
		if s.stream {
			return syscall.SOCK_STREAM, nil
		}
		return syscall.SOCK_DGRAM, nil
	case level == syscall.SOL_SOCKET && name == syscall.SO_ACCEPTCONN:
		if s.state == rsListening {
			return 1, nil
		}
		return 0, nil
	case level == syscall.IPPROTO_TCP && (name == syscall.TCP_KEEPCNT || name == syscall.TCP_KEEPINTVL):
		return 1, nil
	case level == syscall.IPPROTO_TCP && name == syscall.TCP_MAXSEG:
		return s.maxSegment(), nil
	}
	o, known := s.option(level, name)
	switch {
	case !known:
		return 0, syscall.ENOTSUP
	case o.number != nil:
		return *o.number, nil
	case *o.flag:
		return 1, nil
	}
	return 0, nil
}

// maxSegment returns the path's MTU.
func (s *rsock) maxSegment() int {
	if s.id != nil && len(s.id.devices) > 0 {
		if p, err := s.id.devices[0].Port(1); err == nil {
			return p.ActiveMTU.Bytes()
		}
	}
	return 2048
}

//export rj_rs_fcntl
func rj_rs_fcntl(fd, command, value C.int) C.int {
	var flags C.int
	r := withRsock(fd, func(s *rsock) error {
		switch command {
		case syscall.F_GETFL:
			flags = C.int(s.flags) | syscall.O_RDWR
		case syscall.F_SETFL:
			s.flags = int(value)
		case syscall.F_GETFD:
			flags = syscall.FD_CLOEXEC
		case syscall.F_SETFD: // an rsocket does not outlive exec
		default:
			return syscall.ENOTSUP
		}
		return nil
	})
	if r != 0 {
		return r
	}
	return flags
}
