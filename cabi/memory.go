// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// pd is a protection domain of a context.
type pd struct {
	*verbs.PD
	context *deviceContext
}

// mr is a region and its access flags.
type mr struct {
	*verbs.MR
	access verbs.Access
}

var (
	pds = newTable[pd]()
	mrs = newTable[mr]()
	mws = newTable[verbs.MW]()
)

//export rj_alloc_pd
func rj_alloc_pd(h C.uint64_t, out *C.uint64_t) C.int {
	c := contexts.get(uint64(h))
	if c == nil {
		return enoent
	}
	p, err := c.dev.AllocPD()
	if err != nil {
		return errno(err)
	}
	objects.put(p, object{context: c})
	*out = C.uint64_t(pds.put(&pd{p, c}))
	return ok
}

//export rj_dealloc_pd
func rj_dealloc_pd(h C.uint64_t) C.int {
	return destroy(pds, h, func(p *pd) io.Closer { return p.PD }, nil)
}

//export rj_reg_mr
func rj_reg_mr(h C.uint64_t, addr unsafe.Pointer, length C.size_t, iova C.uint64_t, flags C.uint,
	out *C.struct_rj_mr) C.int {
	p := pds.get(uint64(h))
	if p == nil {
		return enoent
	}
	a, known := access(uint32(flags))
	if !known {
		return einval
	}
	if a&verbs.OnDemand != 0 && addr == nil && uint64(length) == 1<<64-1 { // the implicit region
		return C.int(syscall.EOPNOTSUPP)
	}
	if err := pinnable(uintptr(addr), uint64(length), a); err != nil {
		return errno(err)
	}
	buf, valid := sliceOf((*byte)(addr), length)
	if !valid {
		return C.int(syscall.EFAULT)
	}
	v, err := p.RegMR(buf, a, verbs.External(uint64(iova)))
	if err != nil {
		return errno(err)
	}
	objects.put(v, object{context: p.context})
	out.handle = C.uint64_t(mrs.put(&mr{v, a}))
	out.mr.lkey, out.mr.rkey = C.uint32_t(v.LKey()), C.uint32_t(v.RKey())
	return ok
}

// pinnable checks that memory could be pinned for a region with the given access. With on-demand
// paging it may be mapped later.
func pinnable(addr uintptr, length uint64, a verbs.Access) error {
	if length == 0 {
		return nil
	}
	if a&verbs.OnDemand == 0 {
		return mapped(addr, length, a&verbs.LocalWrite != 0)
	}
	if !addressable(addr, length) {
		return efault
	}
	return nil
}

//export rj_rereg_mr
func rj_rereg_mr(out *C.struct_rj_mr, flags C.int, h C.uint64_t, addr unsafe.Pointer, length C.size_t,
	acc C.uint) C.int {
	if out == nil {
		return einval
	}
	mr := mrs.get(handleOf(out.handle, out.mr.handle))
	if mr == nil {
		return enoent
	}
	a, known := access(uint32(acc))
	if !known {
		return einval
	}
	f := verbs.ReregFlags(flags) // the same bits
	var to *verbs.PD
	if f&verbs.ReregPD != 0 {
		p := pds.get(uint64(h))
		if p == nil {
			return enoent
		}
		to = p.PD
	}
	if f&verbs.ReregAccess == 0 {
		a = mr.access
	}
	if f&verbs.ReregTranslation == 0 {
		addr, length = unsafe.Pointer(unsafe.SliceData(mr.Bytes())), C.size_t(mr.Len())
	}
	if f&(verbs.ReregTranslation|verbs.ReregAccess) != 0 {
		if err := pinnable(uintptr(addr), uint64(length), a); err != nil {
			return errno(err)
		}
	}
	buf, valid := sliceOf((*byte)(addr), length)
	if !valid {
		return C.int(syscall.EFAULT)
	}
	if err := mr.Rereg(f, to, buf, a); err != nil {
		return errno(err)
	}
	mr.access = a
	out.mr.lkey, out.mr.rkey = C.uint32_t(mr.LKey()), C.uint32_t(mr.RKey())
	return ok
}

// rj_advise_mr brings pages of regions into memory before they are used.
//
//export rj_advise_mr
func rj_advise_mr(advice C.int, list *C.struct_ibv_sge, n C.int) C.int {
	how := unix.MADV_POPULATE_READ
	switch advice {
	case C.IBV_ADVISE_MR_ADVICE_PREFETCH:
	case C.IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		how = unix.MADV_POPULATE_WRITE
	case C.IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: // pages that are present need nothing
		return ok
	default:
		return C.int(syscall.EOPNOTSUPP)
	}
	sges, valid := sliceOf((*verbs.SGE)(unsafe.Pointer(list)), n)
	if !valid {
		return einval
	}
	for _, s := range sges {
		mr := mrs.find(func(m *mr) bool { return m.LKey() == s.LKey })
		if mr == nil {
			return C.int(syscall.ENOENT)
		}
		off := s.Addr - mr.Addr()
		if s.Addr < mr.Addr() || off > uint64(mr.Len()) || uint64(s.Length) > uint64(mr.Len())-off {
			return einval
		}
		if s.Length == 0 {
			continue
		}
		b := mr.Bytes()[off : off+uint64(s.Length)]
		into := uintptr(unsafe.Pointer(&b[0])) % uintptr(os.Getpagesize())
		pages := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&b[0]), -int(into))), len(b)+int(into))
		// On a kernel that does not know the advice, pages come when they are used.
		if err := unix.Madvise(pages, how); err != nil && err != unix.EINVAL {
			return C.int(syscall.EFAULT)
		}
	}
	return ok
}

//export rj_dereg_mr
func rj_dereg_mr(h C.uint64_t) C.int {
	return destroy(mrs, h, func(r *mr) io.Closer { return r.MR }, nil)
}

//export rj_alloc_mw
func rj_alloc_mw(h C.uint64_t, typ C.int, out *C.struct_rj_mw) C.int {
	p := pds.get(uint64(h))
	if p == nil {
		return enoent
	}
	mw, err := p.AllocMW(verbs.MWType(typ)) // the same numbers
	if err != nil {
		return errno(err)
	}
	objects.put(mw, object{context: p.context})
	out.handle, out.mw.rkey = C.uint64_t(mws.put(mw)), C.uint32_t(mw.RKey())
	return ok
}

// rj_bind_mw binds a type 1 window. Its next key is already known: the device increments it.
//
//export rj_bind_mw
func rj_bind_mw(h C.uint64_t, w *C.struct_rj_mw, bind *C.struct_ibv_mw_bind) C.int {
	if w == nil || bind == nil {
		return einval
	}
	q, mw := qps.get(uint64(h)), mws.get(uint64(w.handle))
	if q == nil || mw == nil {
		return enoent
	}
	info, known := bindInfo(mw, 0, (*cBindInfo)(unsafe.Pointer(&bind.bind_info)))
	if !known {
		return einval
	}
	if err := q.BindMW(uint64(bind.wr_id), sendFlags(uint32(bind.send_flags)), info); err != nil {
		return errno(err)
	}
	w.mw.rkey = C.uint32_t(uint32(w.mw.rkey)&^0xff | (uint32(w.mw.rkey)+1)&0xff)
	return ok
}

func bindInfo(mw *verbs.MW, key uint32, b *cBindInfo) (verbs.MWBindInfo, bool) {
	a, known := access(b.access)
	a &^= verbs.LocalWrite | verbs.RelaxedOrdering // which have no meaning for a window
	info := verbs.MWBindInfo{MW: mw, RKey: verbs.Key(key), Addr: b.addr, Length: b.length, Access: a}
	if b.mr != nil {
		c := (*C.struct_rj_mr)(b.mr)
		of := mrs.get(uint64(c.handle))
		if of == nil {
			return info, false
		}
		info.MR = of.MR
	}
	return info, known
}

//export rj_dealloc_mw
func rj_dealloc_mw(h C.uint64_t) C.int {
	return destroy(mws, h, func(w *verbs.MW) io.Closer { return w }, nil)
}

var efault = &verbs.OpError{Op: "reg_mr", Err: syscall.EFAULT}
