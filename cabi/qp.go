// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// qp is a queue pair with room for lists of work requests.
type qp struct {
	*verbs.QP
	context *deviceContext
	init    C.struct_ibv_qp_init_attr

	sendMu sync.Mutex
	sends  []verbs.SendWR
	data   []byte // inline data

	recvMu sync.Mutex
	recvs  []verbs.RecvWR

	groupMu sync.Mutex
	groups  []group
}

// group is a multicast group joined by a queue pair.
type group struct {
	gid verbs.GID
	lid uint16
}

// leaveGroups detaches a queue pair that is destroyed without being detached.
func (q *qp) leaveGroups() {
	q.groupMu.Lock()
	defer q.groupMu.Unlock()
	for _, g := range q.groups {
		q.DetachMulticast(g.gid, g.lid)
	}
	q.groups = nil
}

var (
	qps = newTable[qp]()
	ahs = newTable[verbs.AH]()
)

// qpTypes maps C's types to package verbs'.
var qpTypes = map[uint32]verbs.QPType{C.IBV_QPT_RC: verbs.RC, C.IBV_QPT_UC: verbs.UC, C.IBV_QPT_UD: verbs.UD,
	C.IBV_QPT_XRC_SEND: verbs.XRCIni, C.IBV_QPT_XRC_RECV: verbs.XRCTgt}

//export rj_create_qp
func rj_create_qp(ph, xh C.uint64_t, attr *C.struct_ibv_qp_init_attr_ex, out *C.struct_rj_qp) C.int {
	typ, known := qpTypes[attr.qp_type]
	if !known {
		return C.int(syscall.EOPNOTSUPP)
	}
	p, x := pds.get(uint64(ph)), xrcds.get(uint64(xh))
	if typ == verbs.XRCTgt && x == nil || typ != verbs.XRCTgt && p == nil {
		return einval
	}
	init, errn := qpInit(typ, attr, out)
	if errn != 0 {
		return errn
	}
	if typ == verbs.XRCTgt {
		v, err := x.CreateTargetQP(init)
		if err != nil {
			return errno(err)
		}
		finishQP(v, contexts.get(uint64(contextOf(out.qp.qp_base.context).handle)), attr, out)
		return ok
	}
	v, err := p.CreateQP(init)
	if err != nil {
		return errno(err)
	}
	finishQP(v, p.context, attr, out)
	return ok
}

// finishQP fills in C's struct of a new queue pair.
func finishQP(v *verbs.QP, c *deviceContext, attr *C.struct_ibv_qp_init_attr_ex, out *C.struct_rj_qp) {
	q := &qp{QP: v, context: c}
	caps := v.Query().Cap
	if checking.checker != nil { // as little as a device may grant
		caps.MaxInline = int(attr.cap.max_inline_data)
	}
	setCaps(&attr.cap, caps)
	q.init = *(*C.struct_ibv_qp_init_attr)(unsafe.Pointer(attr)) // they begin alike
	objects.put(v, object{c, unsafe.Pointer(out), (*uint32)(&out.async_events_reported)})
	out.handle = C.uint64_t(qps.put(q))
	out.qp.qp_base.qp_num = C.uint32_t(v.Num())
}

func contextOf(c *C.struct_ibv_context) *C.struct_rj_context {
	var rc C.struct_rj_context
	return (*C.struct_rj_context)(unsafe.Add(unsafe.Pointer(c),
		-int(unsafe.Offsetof(rc.v)+unsafe.Offsetof(rc.v.context))))
}

func qpInit(typ verbs.QPType, attr *C.struct_ibv_qp_init_attr_ex, out *C.struct_rj_qp) (init verbs.QPInit, errn C.int) {
	init = verbs.QPInit{Type: typ, SignalAll: attr.sq_sig_all != 0, Cap: verbs.QPCap{
		MaxSendWR: int(attr.cap.max_send_wr), MaxRecvWR: int(attr.cap.max_recv_wr),
		MaxSendSGE: int(attr.cap.max_send_sge), MaxRecvSGE: int(attr.cap.max_recv_sge),
		MaxInline: int(attr.cap.max_inline_data)}}
	if c := contexts.get(uint64(contextOf(out.qp.qp_base.context).handle)); c != nil {
		init.Exact = c.dev.nic
	}
	queue := func(p *C.struct_ibv_cq) *verbs.CQ {
		if p == nil {
			return nil
		}
		q := cqs.get(handleOf((*C.struct_rj_cq)(unsafe.Pointer(p)).handle, p.handle))
		if q == nil {
			errn = enoent
			return nil
		}
		return q.CQ
	}
	if typ != verbs.XRCTgt {
		init.SendCQ = queue(attr.send_cq)
	}
	if typ <= verbs.UD {
		init.RecvCQ = queue(attr.recv_cq)
	}
	if attr.srq != nil && typ <= verbs.UD {
		s := srqs.get(handleOf((*C.struct_rj_srq)(unsafe.Pointer(attr.srq)).handle, attr.srq.handle))
		if s == nil {
			return init, enoent
		}
		init.SRQ = s.SRQ
	}
	if attr.comp_mask&C.IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
		if attr.create_flags&^C.IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0 {
			return init, C.int(syscall.EOPNOTSUPP)
		}
		init.BlockSelfMulticast = attr.create_flags != 0
	}
	return init, errn
}

func setCaps(c *C.struct_ibv_qp_cap, caps verbs.QPCap) {
	*c = C.struct_ibv_qp_cap{max_send_wr: C.uint32_t(caps.MaxSendWR), max_recv_wr: C.uint32_t(caps.MaxRecvWR),
		max_send_sge: C.uint32_t(caps.MaxSendSGE), max_recv_sge: C.uint32_t(caps.MaxRecvSGE),
		max_inline_data: C.uint32_t(caps.MaxInline)}
}

//export rj_destroy_qp
func rj_destroy_qp(h C.uint64_t) C.int {
	return destroy(qps, h, func(q *qp) io.Closer { return q.QP }, nil)
}

// rj_post_send posts a list up to the work request that cannot be posted, which is returned in bad.
// If bad is nil, it posts all of them or none.
//
//export rj_post_send
func rj_post_send(h C.uint64_t, wr *C.struct_ibv_send_wr, bad **C.struct_ibv_send_wr) C.int {
	q := qps.get(uint64(h))
	if q == nil {
		return enoent
	}
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	first := (*cSendWR)(unsafe.Pointer(wr))
	q.sends, q.data = q.sends[:0], q.data[:0]
	valid := true
	maxWR := int(q.init.cap.max_send_wr) // of a longer list only one more is read: it may be circular
	for w := first; w != nil && valid && len(q.sends) <= maxWR; w = w.next {
		i := len(q.sends)
		q.sends = slices.Grow(q.sends, 1)[:i+1]
		if valid = q.convert(w, &q.sends[i]); !valid {
			q.sends = q.sends[:i]
		}
	}
	n, err := 0, error(nil)
	switch {
	case bad != nil && len(q.sends) > 0:
		n, err = q.PostSendList(q.sends)
	case bad == nil && valid:
		if err = q.PostSendAll(q.sends); err == nil {
			n = len(q.sends)
		}
	}
	if err == nil && valid {
		return ok
	}
	first.at(n).unbind(len(q.sends) - n)
	if bad == nil {
		return cmp.Or(errno(err), einval)
	}
	*bad = (*C.struct_ibv_send_wr)(unsafe.Pointer(first.at(n)))
	if err == nil {
		return einval
	}
	return errno(err)
}

//export rj_post_recv
func rj_post_recv(h C.uint64_t, wr *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	q := qps.get(uint64(h))
	if q == nil {
		return enoent
	}
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	first := (*cRecvWR)(unsafe.Pointer(wr))
	q.recvs = recvList(q.recvs[:0], first, int(q.init.cap.max_recv_wr))
	n, err := q.PostRecvList(q.recvs)
	if err != nil && bad != nil {
		*bad = (*C.struct_ibv_recv_wr)(unsafe.Pointer(first.at(n)))
	}
	return errno(err)
}

func gidAt(p *C.uint8_t) (g verbs.GID) { return *(*verbs.GID)(unsafe.Pointer(p)) }

//export rj_attach_mcast
func rj_attach_mcast(h C.uint64_t, gid *C.uint8_t, lid C.int) C.int {
	q := qps.get(uint64(h))
	if q == nil {
		return enoent
	}
	if gid == nil {
		return einval
	}
	q.groupMu.Lock()
	defer q.groupMu.Unlock()
	g := group{gidAt(gid), uint16(lid)}
	err := q.AttachMulticast(g.gid, g.lid)
	if err == nil {
		q.groups = append(q.groups, g)
	}
	return errno(err)
}

//export rj_detach_mcast
func rj_detach_mcast(h C.uint64_t, gid *C.uint8_t, lid C.int) C.int {
	q := qps.get(uint64(h))
	if q == nil {
		return enoent
	}
	if gid == nil {
		return einval
	}
	q.groupMu.Lock()
	defer q.groupMu.Unlock()
	g := group{gidAt(gid), uint16(lid)}
	err := q.DetachMulticast(g.gid, g.lid)
	if i := slices.Index(q.groups, g); err == nil && i >= 0 {
		q.groups = slices.Delete(q.groups, i, i+1)
	}
	return errno(err)
}

//export rj_create_ah
func rj_create_ah(h C.uint64_t, attr *C.struct_ibv_ah_attr, out *C.uint64_t) C.int {
	p := pds.get(uint64(h))
	if p == nil {
		return enoent
	}
	if attr == nil || attr.port_num == 0 {
		return einval
	}
	a, err := p.CreateAH(ahAttr(attr))
	if err != nil {
		return errno(err)
	}
	objects.put(a, object{context: p.context})
	*out = C.uint64_t(ahs.put(a))
	return ok
}

//export rj_destroy_ah
func rj_destroy_ah(h C.uint64_t) C.int {
	return destroy(ahs, h, func(a *verbs.AH) io.Closer { return a }, nil)
}
