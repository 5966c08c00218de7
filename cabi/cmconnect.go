// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
import "C"

import (
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// connParam converts one side's parameters. nil stays nil.
func connParam(p *C.struct_rdma_conn_param) *cm.ConnParam {
	if p == nil {
		return nil
	}
	c := &cm.ConnParam{ResponderResources: uint8(p.responder_resources), InitiatorDepth: uint8(p.initiator_depth),
		FlowControl: p.flow_control != 0, RetryCount: uint8(p.retry_count) & 7,
		RNRRetryCount: uint8(p.rnr_retry_count) & 7, SRQ: p.srq != 0, QPNum: verbs.QPN(p.qp_num)}
	if p.private_data != nil {
		c.PrivateData = C.GoBytes(p.private_data, C.int(p.private_data_len))
	}
	return c
}

//export rj_cm_connect
func rj_cm_connect(h C.uint64_t, p *C.struct_rdma_conn_param) C.int {
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return one.Connect(connParam(p)) })
}

//export rj_cm_accept
func rj_cm_accept(h C.uint64_t, p *C.struct_rdma_conn_param) C.int {
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return answered(one.Accept(connParam(p))) })
}

//export rj_cm_reject
func rj_cm_reject(h C.uint64_t, data unsafe.Pointer, n C.int) C.int {
	b, valid := sliceOf((*byte)(data), n)
	if !valid {
		return einval
	}
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return answered(one.Reject(b)) })
}

// answered returns the kernel's error for a request that cannot be answered any more: it was answered, or its peer has
// gone.
func answered(err error) error {
	if errors.Is(err, cm.ErrDisconnected) {
		return syscall.EINVAL
	}
	return err
}

//export rj_cm_establish
func rj_cm_establish(h C.uint64_t) C.int {
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return one.Establish() })
}

//export rj_cm_notify
func rj_cm_notify(h C.uint64_t, event C.int) C.int {
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return one.Notify(verbs.EventType(event)) })
}

//export rj_cm_disconnect
func rj_cm_disconnect(h C.uint64_t) C.int {
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return one.Disconnect() })
}

//export rj_cm_join
func rj_cm_join(h C.uint64_t, group *C.struct_sockaddr, sendOnly C.int) C.int {
	at, valid := addrPort(group)
	if !valid {
		return einval
	}
	return cmCall(h, func(_ *cmID, one *cm.ID) error {
		if sendOnly != 0 {
			return one.JoinMulticastSendOnly(at.Addr())
		}
		return one.JoinMulticast(at.Addr())
	})
}

//export rj_cm_leave
func rj_cm_leave(h C.uint64_t, group *C.struct_sockaddr) C.int {
	at, valid := addrPort(group)
	if !valid {
		return einval
	}
	return cmCall(h, func(_ *cmID, one *cm.ID) error { return one.LeaveMulticast(at.Addr()) })
}

// rj_cm_set_option sets an option now, and in ids that are created when the id is bound.
//
//export rj_cm_set_option
func rj_cm_set_option(h C.uint64_t, level, name C.int, value unsafe.Pointer, n C.size_t) C.int {
	id := cmIDs.get(uint64(h))
	if id == nil || value == nil {
		return einval
	}
	var number uint8
	switch {
	case level != C.RDMA_OPTION_ID:
		return C.int(syscall.EOPNOTSUPP)
	case name == C.RDMA_OPTION_ID_TOS || name == C.RDMA_OPTION_ID_ACK_TIMEOUT:
		if n != 1 {
			return einval
		}
		number = *(*uint8)(value)
	case name == C.RDMA_OPTION_ID_REUSEADDR || name == C.RDMA_OPTION_ID_AFONLY:
		if n != C.sizeof_int {
			return einval
		}
		if *(*C.int)(value) != 0 {
			number = 1
		}
	default:
		return C.int(syscall.EOPNOTSUPP)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	var set func(*cm.ID) error
	switch name {
	case C.RDMA_OPTION_ID_TOS:
		set = func(one *cm.ID) error { return one.SetTOS(number) }
	case C.RDMA_OPTION_ID_REUSEADDR:
		set = func(one *cm.ID) error { return one.SetReuseAddr(number != 0) }
	case C.RDMA_OPTION_ID_ACK_TIMEOUT:
		set = func(one *cm.ID) error { return one.SetAckTimeout(number) }
	case C.RDMA_OPTION_ID_AFONLY:
		return errno(id.setOnly6(number != 0))
	}
	return errno(id.set(set))
}

// set changes an option in all of the id's counterparts, including counterparts that are created
// when it is bound. The id's lock is held.
func (id *cmID) set(f func(*cm.ID) error) error {
	for _, one := range id.ids {
		if err := f(one); err != nil {
			return err
		}
	}
	id.setup = append(id.setup, f)
	return nil
}

//export rj_cm_set_qp_type
func rj_cm_set_qp_type(h C.uint64_t, typ C.int) C.int {
	id := cmIDs.get(uint64(h))
	t, known := qpTypes[uint32(typ)]
	if id == nil || !known {
		return einval
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	return errno(id.set(func(one *cm.ID) error { return one.SetQPType(t) }))
}

//export rj_cm_init_qp_attr
func rj_cm_init_qp_attr(h C.uint64_t, attr *C.struct_ibv_qp_attr, mask *C.int) C.int {
	if attr == nil || mask == nil {
		return einval
	}
	return cmCall(h, func(id *cmID, one *cm.ID) error {
		next := verbs.QPState(attr.qp_state)
		var a verbs.QPAttr
		var m verbs.QPMask
		if id.ps == cm.UDP || id.ps == cm.IPoIB {
			a, m = verbs.QPAttr{State: next, Port: 1, QKey: cm.UDPQKey}, verbs.MaskState
			switch next {
			case verbs.StateInit:
				m |= verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskQKey
			case verbs.StateRTS:
				m |= verbs.MaskSQPSN
			}
		} else {
			var err error
			if a, m, err = one.InitQPAttr(next); err != nil {
				return err
			}
		}
		a.State = next
		setAttr(attr, &a)
		*mask = C.int(m) // the same bits, except for the rate limit
		return nil
	})
}

//export rj_cm_create_qp
func rj_cm_create_qp(h, ph, xh C.uint64_t, attr *C.struct_ibv_qp_init_attr_ex, out *C.struct_rj_qp) C.int {
	p, x := pds.get(uint64(ph)), xrcds.get(uint64(xh))
	typ, known := qpTypes[attr.qp_type]
	if !known || typ == verbs.XRCTgt && x == nil || typ != verbs.XRCTgt && p == nil {
		return einval
	}
	init, errn := qpInit(typ, attr, out)
	if errn != 0 {
		return errn
	}
	return cmCall(h, func(_ *cmID, one *cm.ID) error {
		if typ == verbs.XRCTgt {
			v, err := one.CreateTargetQP(x.XRCD, init)
			if err != nil {
				return err
			}
			finishQP(v, contexts.get(uint64(contextOf(out.qp.qp_base.context).handle)), attr, out)
			return nil
		}
		v, err := one.CreateQP(p.PD, init)
		if err != nil {
			return err
		}
		finishQP(v, p.context, attr, out)
		return nil
	})
}

//export rj_cm_next
func rj_cm_next(h C.uint64_t, out *C.struct_rj_cm_event) C.int {
	ch := cmChannels.get(uint64(h))
	if ch == nil {
		return 0
	}
	var owner *cmID
	e, found := ch.events.pop(func(e cmEvent) {
		to := e.ID
		if e.Type == cm.ConnectRequest {
			to = e.Listener
		}
		owner = e.about
		if o, ok := cmOwners.Load(to); ok {
			owner = o.(*cmID)
		}
		if owner != nil {
			atomic.AddUint32((*uint32)(&(*C.struct_rj_cm_id)(owner.c).events_reported), 1)
		}
	})
	if !found {
		return 0
	}
	if owner == nil {
		dropRequest(e)
		return 0
	}
	*out = C.struct_rj_cm_event{}
	out.owner = (*C.struct_rj_cm_id)(owner.c)
	out.event.event = uint32(e.Type) // in the same order
	out.event.status = C.int(status(e.Event))
	if e.Type == cm.ConnectRequest {
		out.event.listen_id = &out.owner.id
		out.handle = C.uint64_t(request(owner, ch, e.ID))
	} else {
		out.event.id = &out.owner.id
	}
	if e.about != nil {
		out.event.status = C.int(e.status)
		*(*uint64)(unsafe.Pointer(&out.event.param)) = e.arg
		return 1
	}
	setParam(out, owner, e.Event)
	if e.ID != nil {
		follow(e.ID)
	}
	if e.Group.IsValid() {
		g := e.Group.As16()
		for i, b := range g {
			out.group[i] = C.uint8_t(b)
		}
	}
	return 1
}

// request makes the id of a peer's request known to C. Its events go to the channel of the request.
func request(listener *cmID, ch *cmChannel, one *cm.ID) uint64 {
	listener.mu.Lock()
	defer listener.mu.Unlock()
	id := &cmID{ps: listener.ps, channel: ch}
	for i, l := range listener.ids {
		if l.Device() == one.Device() {
			d := listener.devices[i]
			devicesMu.Lock()
			d.users++
			devicesMu.Unlock()
			id.add(one, d)
		}
	}
	return cmIDs.put(id)
}

// status returns the status of an event: a reason, that of SIDR REP for a datagram service, or a negative errno.
func status(e *cm.Event) int {
	if e.Err == nil {
		return 0
	}
	var r *cm.RejectError
	switch {
	case !errors.As(e.Err, &r):
	case e.Type != cm.Unreachable:
		return int(r.Reason)
	case r.Reason == cm.ReasonInvalidService:
		return int(mad.SIDRUnsupported)
	case r.Reason == cm.RejectReason(mad.RejNoQP):
		return int(mad.SIDRNoQP)
	default:
		return int(mad.SIDRReject)
	}
	if e.Type == cm.Unreachable {
		return -int(syscall.ETIMEDOUT)
	}
	return -int(errno(e.Err))
}

func setParam(out *C.struct_rj_cm_event, owner *cmID, e *cm.Event) {
	data := e.Conn.PrivateData
	datagrams := owner.ps == cm.UDP || owner.ps == cm.IPoIB
	if datagrams {
		data = e.UD.PrivateData
	}
	var r *cm.RejectError
	if errors.As(e.Err, &r) {
		data = r.PrivateData
	}
	n := min(len(data), len(out.data)-1)
	for i := range n {
		out.data[i] = C.uint8_t(data[i])
	}
	var at unsafe.Pointer
	if n > 0 {
		at = unsafe.Pointer(&out.data)
	}
	if datagrams {
		u := (*C.struct_rdma_ud_param)(unsafe.Pointer(&out.event.param))
		u.private_data, u.private_data_len = at, C.uint8_t(n)
		setAH(&u.ah_attr, &e.UD.AH)
		u.qp_num, u.qkey = C.uint32_t(e.UD.QPN), C.uint32_t(e.UD.QKey)
		return
	}
	c := (*C.struct_rdma_conn_param)(unsafe.Pointer(&out.event.param))
	c.private_data, c.private_data_len = at, C.uint8_t(n)
	c.responder_resources, c.initiator_depth = C.uint8_t(e.Conn.ResponderResources), C.uint8_t(e.Conn.InitiatorDepth)
	c.retry_count, c.rnr_retry_count = C.uint8_t(e.Conn.RetryCount), C.uint8_t(e.Conn.RNRRetryCount)
	if e.Conn.FlowControl {
		c.flow_control = 1
	}
	if e.Conn.SRQ {
		c.srq = 1
	}
	c.qp_num = C.uint32_t(e.Conn.QPNum)
}
