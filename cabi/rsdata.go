// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <sys/socket.h>
// #include <sys/uio.h>
import "C"

import (
	"io"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/rnet"
)

// pieces calls f with the memory of a list, without its first skip bytes, until f processes less
// than it was given.
func pieces(iov *C.struct_iovec, n C.int, skip C.size_t, f func([]byte) (int, error)) (done int, err error) {
	list, valid := sliceOf(iov, n)
	if !valid {
		return 0, syscall.EFAULT
	}
	for _, v := range list {
		if skip >= v.iov_len {
			skip -= v.iov_len
			continue
		}
		b, valid := memory(v.iov_base, skip, v.iov_len)
		if !valid {
			return done, syscall.EFAULT
		}
		k, err := f(b)
		done += k
		if err != nil || k < len(b) || C.size_t(len(b)) < v.iov_len-skip {
			return done, err
		}
		skip = 0
	}
	return done, nil
}

// memory returns a program's memory behind the first skip bytes, up to the most that one call moves. Programs may
// give a length larger than their memory. It returns false if there cannot be any.
func memory(p unsafe.Pointer, skip, length C.size_t) ([]byte, bool) {
	const most = 1<<31 - 4096 // as with the system's calls
	if p == nil && length > skip {
		return nil, false
	}
	return sliceOf((*byte)(unsafe.Add(p, uintptr(skip))), min(length-skip, most))
}

// size returns the number of bytes of a list, up to the size limit of a datagram.
func size(iov *C.struct_iovec, n C.int) (total int) {
	const most = 1 << 16
	list, _ := sliceOf(iov, n)
	for _, v := range list {
		total = min(total+int(min(v.iov_len, most)), most)
	}
	return total
}

// established returns the connection of a stream, or why it has none now.
func (s *rsock) established(flags C.int) (*rnet.Conn, error) {
	switch s.state {
	case rsConnected:
		return s.conn, nil
	case rsConnecting:
		return nil, s.again(flags)
	case rsFailed:
		if err := s.err; err != nil {
			s.err = nil
			return nil, err
		}
	case rsClosed:
		return nil, syscall.EBADF
	}
	return nil, syscall.ENOTCONN
}

//export rj_rs_recv
func rj_rs_recv(fd C.int, iov *C.struct_iovec, n C.int, skip C.size_t, flags C.int, from *C.struct_sockaddr_storage,
	length *C.socklen_t) C.ssize_t {
	s := rsocks.get(fd)
	if s == nil {
		return -C.ssize_t(syscall.EBADF)
	}
	got, err := s.recv(iov, n, skip, flags, from, length)
	if err != nil {
		return -C.ssize_t(rsErrno(err))
	}
	return C.ssize_t(got)
}

func (s *rsock) recv(iov *C.struct_iovec, n C.int, skip C.size_t, flags C.int, from *C.struct_sockaddr_storage,
	length *C.socklen_t) (int, error) {
	s.received.Add(1)
	s.mu.Lock()
	if flags&syscall.MSG_OOB != 0 {
		s.mu.Unlock()
		return 0, syscall.EOPNOTSUPP
	}
	if !s.stream {
		defer s.mu.Unlock()
		return s.recvPacket(iov, n, flags, from, length)
	}
	conn, err := s.established(flags)
	again, shut := s.again(flags), s.readShut
	if err == nil && from != nil {
		*length = s.setName(from, s.peer)
	}
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	read := conn.TryRead
	if flags&syscall.MSG_PEEK != 0 {
		read = conn.TryPeek
		n = min(n, 1)
	}
	got, err := pieces(iov, n, skip, read)
	switch {
	case got > 0 || err == io.EOF || err == syscall.EAGAIN && shut:
		return got, nil
	case err == syscall.EAGAIN:
		return 0, again
	}
	return 0, err
}

//export rj_rs_send
func rj_rs_send(fd C.int, iov *C.struct_iovec, n C.int, skip C.size_t, flags C.int, to *C.struct_sockaddr) C.ssize_t {
	s := rsocks.get(fd)
	if s == nil {
		return -C.ssize_t(syscall.EBADF)
	}
	if flags&syscall.MSG_OOB != 0 {
		return -C.ssize_t(syscall.EOPNOTSUPP)
	}
	if !s.stream {
		done, err := s.sendPacket(iov, n, flags, to)
		if err != nil {
			return -C.ssize_t(rsErrno(err))
		}
		return C.ssize_t(done)
	}
	if to != nil {
		return -C.ssize_t(syscall.EISCONN)
	}
	return s.write(flags, func(conn *rnet.Conn) (int, error) { return pieces(iov, n, skip, conn.TryWrite) })
}

// write calls f with the connection, after riomap's mappings were sent to the peer.
func (s *rsock) write(flags C.int, f func(*rnet.Conn) (int, error)) C.ssize_t {
	s.mu.Lock()
	conn, err := s.established(flags)
	if err == nil {
		err = s.tellMaps()
	}
	again := s.again(flags)
	s.mu.Unlock()
	var done int
	if err == nil {
		done, err = f(conn)
	}
	switch {
	case done > 0 || err == nil:
		return C.ssize_t(done)
	case err == syscall.EAGAIN:
		s.refused.Add(1)
		err = again
	}
	return -C.ssize_t(rsErrno(err))
}
