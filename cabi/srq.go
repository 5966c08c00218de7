// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"io"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// inode identifies the file of an XRC domain that several contexts share.
type inode struct{ dev, ino uint64 }

// xrcd is an XRC domain. Domains of one file are one, within this process.
type xrcd struct {
	*verbs.XRCD
	dev   *device
	file  inode
	users int
}

// openXRCD is a context's reference to an XRC domain.
type openXRCD struct {
	*xrcd
	closed bool // under the device's lock
}

// Close releases the domain. The last reference closes it.
func (x *openXRCD) Close() error {
	x.dev.mu.Lock()
	defer x.dev.mu.Unlock()
	if x.closed {
		return nil
	}
	if x.users == 1 {
		if err := x.XRCD.Close(); err != nil {
			return err
		}
		if x.dev.xrcds[x.file] == x.xrcd {
			delete(x.dev.xrcds, x.file)
		}
	}
	x.users--
	x.closed = true
	return nil
}

// open adds a context's reference to the domain.
func (x *xrcd) open(c *deviceContext) C.uint64_t {
	x.users++
	o := &openXRCD{xrcd: x}
	objects.put(o, object{context: c})
	return C.uint64_t(xrcds.put(o))
}

// srq is a shared receive queue with room for a list of work requests.
type srq struct {
	*verbs.SRQ
	mu  sync.Mutex
	wrs []verbs.RecvWR
}

var (
	xrcds = newTable[openXRCD]()
	srqs  = newTable[srq]()
)

//export rj_open_xrcd
func rj_open_xrcd(h C.uint64_t, fd, oflags C.int, out *C.uint64_t) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	var file inode
	if fd >= 0 {
		var st syscall.Stat_t
		if err := syscall.Fstat(int(fd), &st); err != nil {
			return errno(err)
		}
		file = inode{st.Dev, st.Ino}
	} else if oflags&syscall.O_CREAT == 0 {
		return einval
	}
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.xrcds[file]; x != nil && fd >= 0 {
		if oflags&syscall.O_EXCL != 0 {
			return einval
		}
		*out = x.open(c)
		return ok
	}
	if oflags&syscall.O_CREAT == 0 {
		return C.int(syscall.ENOENT)
	}
	v, err := d.OpenXRCD()
	if err != nil {
		return errno(err)
	}
	x := &xrcd{XRCD: v, dev: d, file: file}
	if fd >= 0 {
		d.xrcds[file] = x
	}
	*out = x.open(c)
	return ok
}

//export rj_close_xrcd
func rj_close_xrcd(h C.uint64_t) C.int {
	return destroy(xrcds, h, func(x *openXRCD) io.Closer { return x }, nil)
}

//export rj_create_srq
func rj_create_srq(h C.uint64_t, attr *C.struct_ibv_srq_attr, xh, ch C.uint64_t, out *C.struct_rj_srq) C.int {
	p := pds.get(uint64(h))
	if p == nil {
		return enoent
	}
	init := verbs.SRQInit{MaxWR: int(attr.max_wr), MaxSGE: int(attr.max_sge)}
	if xh != 0 {
		x, q := xrcds.get(uint64(xh)), cqs.get(uint64(ch))
		if x == nil || q == nil {
			return enoent
		}
		init.XRCD, init.CQ = x.XRCD, q.CQ
	}
	v, err := p.CreateSRQ(init)
	if err != nil {
		return errno(err)
	}
	a := v.Query()
	attr.max_wr, attr.max_sge = C.uint32_t(a.MaxWR), C.uint32_t(a.MaxSGE)
	objects.put(v, object{p.context, unsafe.Pointer(out), (*uint32)(&out.async_events_reported)})
	out.handle, out.num = C.uint64_t(srqs.put(&srq{SRQ: v})), C.uint32_t(v.Num())
	return ok
}

//export rj_modify_srq
func rj_modify_srq(h C.uint64_t, attr *C.struct_ibv_srq_attr, mask C.int) C.int {
	s := srqs.get(uint64(h))
	if s == nil {
		return enoent
	}
	if attr == nil || mask&^(C.IBV_SRQ_MAX_WR|C.IBV_SRQ_LIMIT) != 0 {
		return einval
	}
	a := verbs.SRQAttr{MaxWR: int(attr.max_wr), Limit: int(attr.srq_limit)}
	return errno(s.Modify(a, verbs.SRQMask(mask))) // the same bits
}

//export rj_query_srq
func rj_query_srq(h C.uint64_t, attr *C.struct_ibv_srq_attr) C.int {
	s := srqs.get(uint64(h))
	if s == nil {
		return enoent
	}
	if attr == nil {
		return einval
	}
	a := s.Query()
	*attr = C.struct_ibv_srq_attr{max_wr: C.uint32_t(a.MaxWR), max_sge: C.uint32_t(a.MaxSGE),
		srq_limit: C.uint32_t(a.Limit)}
	return ok
}

//export rj_destroy_srq
func rj_destroy_srq(h C.uint64_t) C.int {
	return destroy(srqs, h, func(s *srq) io.Closer { return s.SRQ }, nil)
}

// maxSRQList is larger than any shared receive queue.
const maxSRQList = 1 << 16

//export rj_post_srq_recv
func rj_post_srq_recv(h C.uint64_t, wr *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	s := srqs.get(uint64(h))
	if s == nil {
		return enoent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := (*cRecvWR)(unsafe.Pointer(wr))
	s.wrs = recvList(s.wrs[:0], first, maxSRQList)
	n, err := s.PostRecvList(s.wrs)
	if err != nil && bad != nil {
		*bad = (*C.struct_ibv_recv_wr)(unsafe.Pointer(first.at(n)))
	}
	return errno(err)
}
