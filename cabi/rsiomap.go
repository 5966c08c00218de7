// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include <stdint.h>
// #include <sys/types.h>
import "C"

import (
	"errors"
	"slices"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// rsMaps are the buffers of riomap, in the order in which they are sent to the peer.
type rsMaps []*rsMap

type rsMap struct {
	addr   unsafe.Pointer
	length int
	offset int64
	remote bool      // the peer may write to it
	mr     *verbs.MR // nil: the peer has not been told yet
}

// tellMaps tells the peer of new mappings. The lock is held.
func (s *rsock) tellMaps() error {
	for _, m := range s.maps {
		if !m.remote || m.mr != nil {
			continue
		}
		buf, valid := sliceOf((*byte)(m.addr), m.length)
		if !valid {
			return syscall.EFAULT
		}
		mr, err := s.conn.TryMap(buf, m.offset)
		if err != nil {
			return err
		}
		m.mr = mr
	}
	return nil
}

//export rj_rs_iomap
func rj_rs_iomap(fd C.int, buf unsafe.Pointer, length C.size_t, prot C.int, offset C.int64_t) C.int64_t {
	if offset == -1 {
		offset = C.int64_t(uintptr(buf))
	}
	r := withRsock(fd, func(s *rsock) error {
		if !s.stream || s.state != rsConnected && s.state != rsConnecting ||
			prot&^(syscall.PROT_WRITE|syscall.PROT_NONE) != 0 || length == 0 {
			return syscall.EINVAL
		}
		if err := mapped(uintptr(buf), uint64(length), true); err != nil {
			return err
		}
		m := &rsMap{addr: buf, length: int(length), offset: int64(offset), remote: prot&syscall.PROT_WRITE != 0}
		s.maps = append(s.maps, m)
		if s.state == rsConnecting {
			return nil
		}
		err := s.tellMaps()
		if err == syscall.EAGAIN {
			err = nil // the next call that sends does it
		}
		if err != nil {
			s.maps = s.maps[:len(s.maps)-1]
		}
		if errors.Is(err, verbs.ErrNoMemory) {
			return syscall.ENOMEM // the peer's table is full
		}
		return err
	})
	if r != 0 {
		return C.int64_t(r)
	}
	return offset
}

//export rj_rs_iounmap
func rj_rs_iounmap(fd C.int, buf unsafe.Pointer, length C.size_t) C.int {
	return withRsock(fd, func(s *rsock) error {
		i := slices.IndexFunc(s.maps, func(m *rsMap) bool { return m.addr == buf && m.length == int(length) })
		if i < 0 {
			return syscall.EINVAL
		}
		m := s.maps[i]
		s.maps = slices.Delete(s.maps, i, i+1)
		if m.mr == nil {
			return nil
		}
		return s.conn.Unmap(m.mr)
	})
}

//export rj_rs_iowrite
func rj_rs_iowrite(fd C.int, buf unsafe.Pointer, length C.size_t, offset C.int64_t, flags C.int) C.ssize_t {
	s := rsocks.get(fd)
	if s == nil || !s.stream {
		return -C.ssize_t(syscall.EBADF)
	}
	return s.write(flags, func(conn *rnet.Conn) (int, error) {
		b, valid := memory(buf, 0, length)
		if !valid {
			return 0, syscall.EFAULT
		}
		n, err := conn.TryWriteAt(b, int64(offset))
		if errors.Is(err, verbs.ErrNotFound) {
			return 0, nil // nothing is mapped there: nothing to write
		}
		return n, err
	})
}
