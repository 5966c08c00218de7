// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

// #include "cmobjects.h"
import "C"

import (
	"fmt"
	"net/netip"
	"slices"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// at returns a program's pointer as one of Go, or nil if no memory is there.
func at[T any](p uint64) *T {
	var v T
	if p == 0 || mapped(uintptr(p), uint64(unsafe.Sizeof(v)), false) != nil {
		return nil
	}
	return *(**T)(unsafe.Pointer(&p))
}

// deref returns the pointer that a program's pointer points to, or 0.
func deref(p uint64) uint64 {
	if v := at[uint64](p); v != nil {
		return *v
	}
	return 0
}

// address returns a pointer as the number that it is.
func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func objectOf[T any](kind string, p *T) calllog.Object {
	return calllog.Object{Kind: kind, Key: uintptr(unsafe.Pointer(p))}
}

// structs have the values of structs, by their type in calllog's table.
var structs = map[string]func(l *loggedCall, p uint64) any{
	"device": func(_ *loggedCall, p uint64) any {
		return of(p, func(d *C.struct_ibv_device) any { return calllog.Symbol(C.GoString(&d.name[0])) })
	},
	"qp_init": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_qp_init_attr) any {
			return queuePair(objectOf("cq", a.send_cq), objectOf("cq", a.recv_cq), objectOf("srq", a.srq), &a.cap,
				uint64(a.qp_type), uint64(a.sq_sig_all))
		})
	},
	"qp_init_ex": func(_ *loggedCall, p uint64) any { return of(p, queuePairEx) },
	"qp_attr": func(l *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_qp_attr) any { return qpAttrs(a, l.mask()) })
	},
	"ah_attr": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_ah_attr) any { return addressVector(a) })
	},
	"srq_init": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_srq_init_attr) any { return receiveQueue(&a.attr) })
	},
	"srq_init_ex": func(_ *loggedCall, p uint64) any { return of(p, receiveQueueEx) },
	"srq_attr": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_srq_attr) any { return receiveQueue(a) })
	},
	"cq_attr_ex": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_cq_init_attr_ex) any {
			return calllog.Fields{{Name: "cqe", Value: uint32(a.cqe)},
				{Name: "cq_context", Value: calllog.Pointer(uint64(uintptr(a.cq_context)))},
				{Name: "channel", Value: objectOf("channel", a.channel)},
				{Name: "comp_vector", Value: uint32(a.comp_vector)},
				{Name: "wc_flags", Value: calllog.Named("wc_fields", uint64(a.wc_flags))}}
		})
	},
	"xrcd_attr": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_xrcd_init_attr) any {
			return calllog.Fields{{Name: "fd", Value: int32(a.fd)}, {Name: "oflags", Value: calllog.Hex(a.oflags)}}
		})
	},
	"parent_attr": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_ibv_parent_domain_init_attr) any {
			return calllog.Fields{{Name: "pd", Value: objectOf("pd", a.pd)}, {Name: "td", Value: objectOf("td", a.td)}}
		})
	},
	"mw_bind": func(_ *loggedCall, p uint64) any {
		return of(p, func(b *C.struct_ibv_mw_bind) any {
			return calllog.Fields{{Name: "wr_id", Value: calllog.Hex(b.wr_id)},
				{Name: "send_flags", Value: calllog.Named("send_flags", uint64(b.send_flags))},
				{Name: "mr", Value: objectOf("mr", b.bind_info.mr)},
				{Name: "addr", Value: calllog.Hex(b.bind_info.addr)},
				{Name: "length", Value: uint64(b.bind_info.length)},
				{Name: "mw_access_flags", Value: calllog.Named("access", uint64(b.bind_info.mw_access_flags))}}
		})
	},
	"conn_param": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_rdma_conn_param) any {
			return calllog.Fields{{Name: "private_data_len", Value: uint8(a.private_data_len)},
				{Name: "responder_resources", Value: uint8(a.responder_resources)},
				{Name: "initiator_depth", Value: uint8(a.initiator_depth)},
				{Name: "flow_control", Value: uint8(a.flow_control)},
				{Name: "retry_count", Value: uint8(a.retry_count)},
				{Name: "rnr_retry_count", Value: uint8(a.rnr_retry_count)},
				{Name: "srq", Value: uint8(a.srq)}, {Name: "qp_num", Value: calllog.Hex(a.qp_num)}}
		})
	},
	"sockaddr": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_sockaddr) any { return socketAddress(address(a)) })
	},
	"addrinfo": func(_ *loggedCall, p uint64) any {
		return of(p, func(a *C.struct_rdma_addrinfo) any {
			return calllog.Fields{{Name: "ai_flags", Value: calllog.Hex(a.ai_flags)},
				{Name: "ai_family", Value: int32(a.ai_family)},
				{Name: "ai_qp_type", Value: calllog.Named("qp_type", uint64(a.ai_qp_type))},
				{Name: "ai_port_space", Value: calllog.Named("port_space", uint64(a.ai_port_space))},
				{Name: "ai_src_addr", Value: socketAddress(address(a.ai_src_addr))},
				{Name: "ai_dst_addr", Value: socketAddress(address(a.ai_dst_addr))}}
		})
	},
	"async_event": func(_ *loggedCall, p uint64) any { return of(p, asyncEventOf) },
	"send_wrs":    func(_ *loggedCall, p uint64) any { return list(p, sendWR) },
	"recv_wrs":    func(_ *loggedCall, p uint64) any { return list(p, recvWR) },
	"gid":         func(_ *loggedCall, p uint64) any { return of(p, func(g *[16]byte) any { return gid(*g) }) },
	"str": func(_ *loggedCall, p uint64) any {
		s := ""
		for ; len(s) < 256; p++ {
			c := at[byte](p)
			if c == nil || *c == 0 {
				break
			}
			s += string(rune(*c))
		}
		return s
	},
}

// of returns the value of the struct at p: NULL, or the address where no memory is.
func of[T any](p uint64, value func(*T) any) any {
	if v := at[T](p); v != nil {
		return value(v)
	}
	return calllog.Pointer(p)
}

// value returns an argument.
func (l *loggedCall) value(typ string, v uint64) any {
	if s, ok := calllog.Scalar(typ, v); ok {
		return s
	}
	if typ == "sockopt" {
		return l.socketOption(v)
	}
	if slices.Contains(calllog.Kinds, typ) {
		return calllog.Object{Kind: typ, Key: uintptr(v)}
	}
	if f := structs[typ]; f != nil && v != 0 {
		return f(l, v)
	}
	return calllog.Pointer(v)
}

// outValue returns the value that a call has written to where an argument points.
func (l *loggedCall) outValue(typ string, p uint64, r *calllog.Result) any {
	switch typ {
	case "intp":
		return of(p, func(v *int32) any { return *v })
	case "u32p":
		return of(p, func(v *uint32) any { return *v })
	case "u64p":
		return of(p, func(v *uint64) any { return *v })
	case "be16p":
		return of(p, func(v *[2]byte) any { return calllog.Hex(uint64(v[0])<<8 | uint64(v[1])) })
	case "ptrp":
		return calllog.Pointer(deref(p))
	case "cqp":
		return calllog.Object{Kind: "cq", Key: uintptr(deref(p))}
	case "idp":
		return calllog.Object{Kind: "id", Key: uintptr(deref(p))}
	case "addrinfop":
		return l.value("addrinfo", deref(p))
	case "cm_eventp":
		return loggedEvent(deref(p))
	case "mac":
		return of(p, func(m *[6]byte) any {
			return calllog.Symbol(fmt.Sprintf("%x:%x:%x:%x:%x:%x", m[0], m[1], m[2], m[3], m[4], m[5]))
		})
	case "gid_entry":
		return of(p, func(e *C.struct_ibv_gid_entry) any { return gid(e.gid) })
	case "port_attr":
		return of(p, func(a *C.struct_ibv_port_attr) any {
			return calllog.Fields{{Name: "state", Value: calllog.Named("port_state", uint64(a.state))},
				{Name: "active_mtu", Value: calllog.Named("mtu", uint64(a.active_mtu))},
				{Name: "lid", Value: uint16(a.lid)},
				{Name: "link_layer", Value: calllog.Named("link_layer", uint64(a.link_layer))}}
		})
	case "device_attr":
		return of(p, func(a *C.struct_ibv_device_attr) any {
			return calllog.Fields{{Name: "max_qp", Value: int32(a.max_qp)},
				{Name: "max_qp_wr", Value: int32(a.max_qp_wr)}, {Name: "max_sge", Value: int32(a.max_sge)},
				{Name: "max_cq", Value: int32(a.max_cq)}, {Name: "max_cqe", Value: int32(a.max_cqe)},
				{Name: "max_mr", Value: int32(a.max_mr)}, {Name: "max_qp_rd_atom", Value: int32(a.max_qp_rd_atom)}}
		})
	case "wcs":
		n, _ := r.Value.(int64)
		out := calllog.List{}
		for i := range min(n, calllog.MaxListed) {
			out = append(out, of(p+uint64(i)*uint64(unsafe.Sizeof(C.struct_ibv_wc{})), completion))
		}
		return out
	}
	return l.value(typ, p)
}

// mask returns the mask of a call's attributes.
func (l *loggedCall) mask() uint64 {
	if l.call.Name == "rdma_init_qp_attr" {
		if m := at[int32](l.arg("qp_attr_mask")); m != nil {
			return uint64(uint32(*m))
		}
	}
	return l.arg("attr_mask")
}

// queuePair are the attributes with which one is created.
func queuePair(send, recv, srq calllog.Object, c *C.struct_ibv_qp_cap, typ, all uint64) calllog.Fields {
	return calllog.Fields{{Name: "qp_type", Value: calllog.Named("qp_type", typ)}, {Name: "send_cq", Value: send},
		{Name: "recv_cq", Value: recv}, {Name: "srq", Value: srq}, {Name: "cap", Value: capacity(c)},
		{Name: "sq_sig_all", Value: int32(all)}}
}

func capacity(c *C.struct_ibv_qp_cap) calllog.Fields {
	return calllog.Fields{{Name: "max_send_wr", Value: uint32(c.max_send_wr)},
		{Name: "max_recv_wr", Value: uint32(c.max_recv_wr)},
		{Name: "max_send_sge", Value: uint32(c.max_send_sge)}, {Name: "max_recv_sge", Value: uint32(c.max_recv_sge)},
		{Name: "max_inline_data", Value: uint32(c.max_inline_data)}}
}

func queuePairEx(a *C.struct_ibv_qp_init_attr_ex) any {
	f := queuePair(objectOf("cq", a.send_cq), objectOf("cq", a.recv_cq), objectOf("srq", a.srq), &a.cap,
		uint64(a.qp_type), uint64(a.sq_sig_all))
	if a.comp_mask&C.IBV_QP_INIT_ATTR_PD != 0 {
		f = append(f, calllog.Arg{Name: "pd", Value: objectOf("pd", a.pd)})
	}
	if a.comp_mask&C.IBV_QP_INIT_ATTR_XRCD != 0 {
		f = append(f, calllog.Arg{Name: "xrcd", Value: objectOf("xrcd", a.xrcd)})
	}
	if a.comp_mask&C.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
		f = append(f, calllog.Arg{Name: "send_ops_flags", Value: calllog.Named("qp_ops", uint64(a.send_ops_flags))})
	}
	return append(f, calllog.Arg{Name: "comp_mask", Value: calllog.Hex(a.comp_mask)})
}

func receiveQueue(a *C.struct_ibv_srq_attr) calllog.Fields {
	return calllog.Fields{{Name: "max_wr", Value: uint32(a.max_wr)}, {Name: "max_sge", Value: uint32(a.max_sge)},
		{Name: "srq_limit", Value: uint32(a.srq_limit)}}
}

func receiveQueueEx(a *C.struct_ibv_srq_init_attr_ex) any {
	f := receiveQueue(&a.attr)
	if a.comp_mask&C.IBV_SRQ_INIT_ATTR_PD != 0 {
		f = append(f, calllog.Arg{Name: "pd", Value: objectOf("pd", a.pd)})
	}
	if a.comp_mask&C.IBV_SRQ_INIT_ATTR_XRCD != 0 {
		f = append(f, calllog.Arg{Name: "xrcd", Value: objectOf("xrcd", a.xrcd)})
	}
	if a.comp_mask&C.IBV_SRQ_INIT_ATTR_CQ != 0 {
		f = append(f, calllog.Arg{Name: "cq", Value: objectOf("cq", a.cq)})
	}
	return append(f, calllog.Arg{Name: "comp_mask", Value: calllog.Hex(a.comp_mask)})
}

// qpAttrs are the attributes of a mask.
func qpAttrs(a *C.struct_ibv_qp_attr, mask uint64) calllog.Fields {
	f := calllog.Fields{}
	for _, one := range []struct {
		bit  uint64
		name string
		v    any
	}{
		{C.IBV_QP_STATE, "qp_state", calllog.Named("qp_state", uint64(a.qp_state))},
		{C.IBV_QP_CUR_STATE, "cur_qp_state", calllog.Named("qp_state", uint64(a.cur_qp_state))},
		{C.IBV_QP_EN_SQD_ASYNC_NOTIFY, "en_sqd_async_notify", uint8(a.en_sqd_async_notify)},
		{C.IBV_QP_ACCESS_FLAGS, "qp_access_flags", calllog.Named("access", uint64(a.qp_access_flags))},
		{C.IBV_QP_PKEY_INDEX, "pkey_index", uint16(a.pkey_index)},
		{C.IBV_QP_PORT, "port_num", uint8(a.port_num)},
		{C.IBV_QP_QKEY, "qkey", calllog.Hex(a.qkey)},
		{C.IBV_QP_AV, "ah_attr", addressVector(&a.ah_attr)},
		{C.IBV_QP_PATH_MTU, "path_mtu", calllog.Named("mtu", uint64(a.path_mtu))},
		{C.IBV_QP_DEST_QPN, "dest_qp_num", calllog.Hex(a.dest_qp_num)},
		{C.IBV_QP_RQ_PSN, "rq_psn", calllog.Hex(a.rq_psn)},
		{C.IBV_QP_SQ_PSN, "sq_psn", calllog.Hex(a.sq_psn)},
		{C.IBV_QP_TIMEOUT, "timeout", uint8(a.timeout)},
		{C.IBV_QP_RETRY_CNT, "retry_cnt", uint8(a.retry_cnt)},
		{C.IBV_QP_RNR_RETRY, "rnr_retry", uint8(a.rnr_retry)},
		{C.IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", uint8(a.min_rnr_timer)},
		{C.IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", uint8(a.max_rd_atomic)},
		{C.IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", uint8(a.max_dest_rd_atomic)},
		{C.IBV_QP_PATH_MIG_STATE, "path_mig_state", calllog.Named("mig_state", uint64(a.path_mig_state))},
		{C.IBV_QP_CAP, "cap", capacity(&a.cap)},
		{C.IBV_QP_RATE_LIMIT, "rate_limit", uint32(a.rate_limit)},
	} {
		if mask&one.bit != 0 {
			f = append(f, calllog.Arg{Name: one.name, Value: one.v})
		}
	}
	return f
}

func addressVector(a *C.struct_ibv_ah_attr) calllog.Fields {
	f := calllog.Fields{{Name: "dlid", Value: uint16(a.dlid)}, {Name: "sl", Value: uint8(a.sl)},
		{Name: "port_num", Value: uint8(a.port_num)}}
	if a.is_global != 0 {
		f = append(f, calllog.Arg{Name: "dgid", Value: gid(a.grh.dgid)},
			calllog.Arg{Name: "sgid_index", Value: uint8(a.grh.sgid_index)},
			calllog.Arg{Name: "hop_limit", Value: uint8(a.grh.hop_limit)},
			calllog.Arg{Name: "traffic_class", Value: uint8(a.grh.traffic_class)})
	}
	return f
}

func gid(g [16]byte) calllog.Symbol { return calllog.Symbol(netip.AddrFrom16(g).String()) }

// socketAddress returns a struct sockaddr.
func socketAddress(p uint64) any {
	return of(p, func(family *C.sa_family_t) any {
		size := uint64(16)
		if *family == C.AF_INET6 {
			size = 28
		}
		if mapped(uintptr(p), size, false) == nil {
			if a, ok := addrPort((*C.struct_sockaddr)(unsafe.Pointer(family))); ok {
				return calllog.Symbol(a.String())
			}
		}
		return calllog.Fields{{Name: "sa_family", Value: uint16(*family)}}
	})
}

func asyncEventOf(e *C.struct_ibv_async_event) any {
	f := calllog.Fields{{Name: "event_type", Value: calllog.Named("event_type", uint64(e.event_type))}}
	p := *(*uint64)(unsafe.Pointer(&e.element))
	switch e.event_type {
	case C.IBV_EVENT_CQ_ERR:
		return append(f, calllog.Arg{Name: "cq", Value: calllog.Object{Kind: "cq", Key: uintptr(p)}})
	case C.IBV_EVENT_SRQ_ERR, C.IBV_EVENT_SRQ_LIMIT_REACHED:
		return append(f, calllog.Arg{Name: "srq", Value: calllog.Object{Kind: "srq", Key: uintptr(p)}})
	case C.IBV_EVENT_QP_FATAL, C.IBV_EVENT_QP_REQ_ERR, C.IBV_EVENT_QP_ACCESS_ERR, C.IBV_EVENT_COMM_EST,
		C.IBV_EVENT_SQ_DRAINED, C.IBV_EVENT_PATH_MIG, C.IBV_EVENT_PATH_MIG_ERR, C.IBV_EVENT_QP_LAST_WQE_REACHED:
		return append(f, calllog.Arg{Name: "qp", Value: calllog.Object{Kind: "qp", Key: uintptr(p)}})
	}
	return append(f, calllog.Arg{Name: "port_num", Value: int32(p)})
}

// loggedEvent returns an event of a connection, with the peer's parameters, if it has some.
func loggedEvent(p uint64) any {
	return of(p, func(e *C.struct_rdma_cm_event) any {
		f := calllog.Fields{{Name: "event", Value: calllog.Object{Kind: "event", Key: uintptr(p)}},
			{Name: "type", Value: calllog.Named("cm_event_type", uint64(e.event))},
			{Name: "id", Value: objectOf("id", e.id)}}
		if e.listen_id != nil {
			f = append(f, calllog.Arg{Name: "listen_id", Value: objectOf("id", e.listen_id)})
		}
		id := at[C.struct_rdma_cm_id](address(e.id))
		if id != nil && (e.event == C.RDMA_CM_EVENT_CONNECT_REQUEST || e.event == C.RDMA_CM_EVENT_ESTABLISHED) {
			f = append(f, calllog.Arg{Name: "src_addr", Value: socketAddress(address(C.rdma_get_local_addr(id)))},
				calllog.Arg{Name: "dst_addr", Value: socketAddress(address(C.rdma_get_peer_addr(id)))})
		}
		return append(f, calllog.Arg{Name: "status", Value: int32(e.status)})
	})
}

// list returns a list of work requests.
func list[T any](p uint64, one func(*T) (any, uint64)) any {
	out := calllog.List{}
	for p != 0 {
		wr := at[T](p)
		if wr == nil {
			return append(out, calllog.Pointer(p))
		}
		if len(out) == calllog.MaxListed {
			return append(out, calllog.Symbol("…"))
		}
		v, next := one(wr)
		out, p = append(out, v), next
	}
	return out
}

func sendWR(wr *C.struct_ibv_send_wr) (any, uint64) {
	f := calllog.Fields{{Name: "wr_id", Value: calllog.Hex(wr.wr_id)},
		{Name: "opcode", Value: calllog.Named("wr_opcode", uint64(wr.opcode))},
		{Name: "send_flags", Value: calllog.Named("send_flags", uint64(wr.send_flags))},
		{Name: "sg_list", Value: elements(wr.sg_list, wr.num_sge)}}
	switch wr.opcode {
	case C.IBV_WR_RDMA_WRITE, C.IBV_WR_RDMA_WRITE_WITH_IMM, C.IBV_WR_RDMA_READ:
		rdma := (*struct {
			addr uint64
			rkey uint32
		})(unsafe.Pointer(&wr.wr))
		f = append(f, calllog.Arg{Name: "remote_addr", Value: calllog.Hex(rdma.addr)},
			calllog.Arg{Name: "rkey", Value: calllog.Hex(rdma.rkey)})
	case C.IBV_WR_ATOMIC_CMP_AND_SWP, C.IBV_WR_ATOMIC_FETCH_AND_ADD:
		atomic := (*struct {
			addr, compare, swap uint64
			rkey                uint32
		})(unsafe.Pointer(&wr.wr))
		f = append(f, calllog.Arg{Name: "remote_addr", Value: calllog.Hex(atomic.addr)},
			calllog.Arg{Name: "rkey", Value: calllog.Hex(atomic.rkey)},
			calllog.Arg{Name: "compare_add", Value: calllog.Hex(atomic.compare)},
			calllog.Arg{Name: "swap", Value: calllog.Hex(atomic.swap)})
	}
	return f, address(wr.next)
}

func recvWR(wr *C.struct_ibv_recv_wr) (any, uint64) {
	return calllog.Fields{{Name: "wr_id", Value: calllog.Hex(wr.wr_id)},
		{Name: "sg_list", Value: elements(wr.sg_list, wr.num_sge)}}, address(wr.next)
}

// elements returns a scatter/gather list.
func elements(first *C.struct_ibv_sge, n C.int) any {
	out := calllog.List{}
	for i := range min(int(n), calllog.MaxListed) {
		out = append(out, of(address(first)+uint64(i)*uint64(unsafe.Sizeof(*first)), func(s *C.struct_ibv_sge) any {
			return calllog.Fields{{Name: "addr", Value: calllog.Hex(s.addr)},
				{Name: "length", Value: uint32(s.length)}, {Name: "lkey", Value: calllog.Hex(s.lkey)}}
		}))
	}
	return out
}

func completion(wc *C.struct_ibv_wc) any {
	return calllog.Fields{{Name: "wr_id", Value: calllog.Hex(wc.wr_id)},
		{Name: "status", Value: calllog.Named("wc_status", uint64(wc.status))},
		{Name: "opcode", Value: calllog.Named("wc_opcode", uint64(wc.opcode))},
		{Name: "byte_len", Value: uint32(wc.byte_len)},
		{Name: "qp_num", Value: calllog.Hex(wc.qp_num)},
		{Name: "wc_flags", Value: calllog.Named("wc_flags", uint64(wc.wc_flags))}}
}
