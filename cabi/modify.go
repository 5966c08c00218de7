// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "objects.h"
import "C"

import (
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// rateLimit is the only bit of the attribute mask that differs in C.
const rateLimit = C.IBV_QP_RATE_LIMIT

// ofOtherSide are the attributes of the other side of an XRC queue pair, which has no responder or
// no requester (IBTA annex A14.2.3). Programs set them for every reliable queue pair, and the
// kernel ignores them.
var ofOtherSide = map[verbs.QPType]verbs.QPMask{
	verbs.XRCIni: verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer,
	verbs.XRCTgt: verbs.MaskMaxRdAtomic | verbs.MaskRetryCount | verbs.MaskRNRRetry,
}

func qpMask(m uint32) (verbs.QPMask, bool) {
	const same = uint32(verbs.MaskRateLimit) - 1
	v := verbs.QPMask(m & same)
	if m&rateLimit != 0 {
		v |= verbs.MaskRateLimit
	}
	return v, m&^(same|rateLimit) == 0
}

// ahAttr converts an address vector. Without a GRH it has no GID.
func ahAttr(a *C.struct_ibv_ah_attr) verbs.AHAttr {
	to := verbs.AHAttr{SL: uint8(a.sl), DLID: uint16(a.dlid), SrcPathBits: uint8(a.src_path_bits),
		Port: int(a.port_num)}
	if a.is_global != 0 {
		to.DGID, to.SGIDIndex, to.HopLimit = verbs.GID(a.grh.dgid), int(a.grh.sgid_index), uint8(a.grh.hop_limit)
		to.TrafficClass, to.FlowLabel = uint8(a.grh.traffic_class), uint32(a.grh.flow_label)
	}
	return to
}

func setAH(c *C.struct_ibv_ah_attr, a *verbs.AHAttr) {
	*c = C.struct_ibv_ah_attr{dlid: C.uint16_t(a.DLID), sl: C.uint8_t(a.SL), src_path_bits: C.uint8_t(a.SrcPathBits),
		port_num: C.uint8_t(max(a.Port, 1))}
	if !a.Global() {
		return
	}
	c.is_global = 1
	c.grh.dgid = a.DGID
	c.grh.flow_label, c.grh.sgid_index = C.uint32_t(a.FlowLabel), C.uint8_t(a.SGIDIndex)
	c.grh.hop_limit, c.grh.traffic_class = C.uint8_t(a.HopLimit), C.uint8_t(a.TrafficClass)
}

// low24 masks a PSN or a queue pair number. Drivers drop the bits above, and programs start with
// any random number.
const low24 = 1<<24 - 1

// qpAttr converts the attributes that the mask names, except the access flags.
func qpAttr(c *C.struct_ibv_qp_attr, access verbs.Access) verbs.QPAttr {
	return verbs.QPAttr{State: verbs.QPState(c.qp_state), CurState: verbs.QPState(c.cur_qp_state),
		SQDAsyncNotify: c.en_sqd_async_notify != 0, Access: access, PKeyIndex: uint16(c.pkey_index),
		Port: int(c.port_num), QKey: verbs.QKey(c.qkey), AH: ahAttr(&c.ah_attr), PathMTU: verbs.MTU(c.path_mtu),
		Timeout: uint8(c.timeout), RetryCount: uint8(c.retry_cnt), RNRRetry: uint8(c.rnr_retry),
		RQPSN: verbs.PSN(c.rq_psn & low24),
		SQPSN: verbs.PSN(c.sq_psn & low24), MaxRdAtomic: uint8(c.max_rd_atomic),
		MaxDestRdAtomic: uint8(c.max_dest_rd_atomic),
		MinRNRTimer:     uint8(c.min_rnr_timer), DestQPN: verbs.QPN(c.dest_qp_num & low24),
		AltAH:    ahAttr(&c.alt_ah_attr),
		MigState: uint8(c.path_mig_state), RateLimit: uint32(c.rate_limit)}
}

func setAttr(c *C.struct_ibv_qp_attr, a *verbs.QPAttr) {
	*c = C.struct_ibv_qp_attr{qp_state: uint32(a.State), cur_qp_state: uint32(a.State),
		qp_access_flags: accessOf(a.Access),
		pkey_index:      C.uint16_t(a.PKeyIndex), port_num: C.uint8_t(max(a.Port, 1)), qkey: C.uint32_t(a.QKey),
		path_mtu: uint32(a.PathMTU), timeout: C.uint8_t(a.Timeout), retry_cnt: C.uint8_t(a.RetryCount),
		rnr_retry: C.uint8_t(a.RNRRetry), rq_psn: C.uint32_t(a.RQPSN), sq_psn: C.uint32_t(a.SQPSN),
		max_rd_atomic: C.uint8_t(a.MaxRdAtomic), max_dest_rd_atomic: C.uint8_t(a.MaxDestRdAtomic),
		min_rnr_timer: C.uint8_t(a.MinRNRTimer), dest_qp_num: C.uint32_t(a.DestQPN), path_mig_state: C.IBV_MIG_MIGRATED}
	setAH(&c.ah_attr, &a.AH)
	setCaps(&c.cap, a.Cap)
}

//export rj_modify_qp
func rj_modify_qp(out *C.struct_rj_qp, attr *C.struct_ibv_qp_attr, mask C.int) C.int {
	if out == nil {
		return einval
	}
	q := qps.get(handleOf(out.handle, out.qp.qp_base.handle))
	if q == nil {
		return enoent
	}
	if attr == nil {
		return einval
	}
	m, known := qpMask(uint32(mask))
	access, allowed := qpAccess(uint32(attr.qp_access_flags))
	if !known || m&verbs.MaskAH != 0 && attr.ah_attr.port_num == 0 || m&verbs.MaskAccess != 0 && !allowed {
		return einval
	}
	if err := q.Modify(qpAttr(attr, access), m&^ofOtherSide[q.Type()]); err != nil {
		return errno(err)
	}
	if m&verbs.MaskState != 0 {
		out.qp.qp_base.state = attr.qp_state
	}
	return ok
}

//export rj_query_qp
func rj_query_qp(out *C.struct_rj_qp, attr *C.struct_ibv_qp_attr, init *C.struct_ibv_qp_init_attr) C.int {
	if out == nil {
		return einval
	}
	q := qps.get(handleOf(out.handle, out.qp.qp_base.handle))
	if q == nil {
		return enoent
	}
	if attr == nil || init == nil {
		return einval
	}
	a := q.Query()
	setAttr(attr, &a)
	*init, attr.cap = q.init, q.init.cap
	init.qp_context = unsafe.Pointer(out.qp.qp_base.qp_context)
	out.qp.qp_base.state = uint32(a.State)
	return ok
}
