// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// gen.go writes layout.go and layouts_test.go: it has a C program tell the offsets and sizes of
// structures, and the values of enumerations. It needs a C compiler, and libibverbs-dev and
// librdmacm-dev.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// structs are the structures: the name in Go, the one in C, and the fields that are used. Of a union
// each member is a structure of its own, of the same size.
var structs = []struct{ name, c, fields string }{
	{"SGE", "struct ibv_sge", "addr length lkey"},
	{"SendWR", "struct ibv_send_wr", "wr_id next sg_list num_sge opcode send_flags imm_data wr.rdma.remote_addr wr.rdma.rkey qp_type.xrc.remote_srqn"},
	{"SendWRAtomic", "struct ibv_send_wr", "wr.atomic.remote_addr wr.atomic.compare_add wr.atomic.swap wr.atomic.rkey"},
	{"SendWRUD", "struct ibv_send_wr", "wr.ud.ah wr.ud.remote_qpn wr.ud.remote_qkey"},
	{"SendWRBind", "struct ibv_send_wr", "bind_mw.mw bind_mw.rkey bind_mw.bind_info.mr bind_mw.bind_info.addr bind_mw.bind_info.length bind_mw.bind_info.mw_access_flags"},
	{"RecvWR", "struct ibv_recv_wr", "wr_id next sg_list num_sge"},
	{"WC", "struct ibv_wc",
		"wr_id status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags pkey_index slid sl dlid_path_bits"},
	{"MWBind", "struct ibv_mw_bind",
		"wr_id send_flags bind_info.mr bind_info.addr bind_info.length bind_info.mw_access_flags"},
	{"MR", "struct ibv_mr", "context pd addr length handle lkey rkey"},
	{"MW", "struct ibv_mw", "context pd rkey handle type"},
	{"AHAttr", "struct ibv_ah_attr", "grh.dgid grh.flow_label grh.sgid_index grh.hop_limit grh.traffic_class dlid sl src_path_bits static_rate is_global port_num"},
	{"QPAttr", "struct ibv_qp_attr", "qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags cap.max_send_wr cap.max_recv_wr cap.max_send_sge cap.max_recv_sge cap.max_inline_data " +
		"ah_attr.grh.dgid ah_attr.grh.flow_label ah_attr.grh.sgid_index ah_attr.grh.hop_limit ah_attr.grh.traffic_class ah_attr.dlid ah_attr.sl ah_attr.src_path_bits ah_attr.static_rate ah_attr.is_global ah_attr.port_num " +
		"pkey_index alt_pkey_index en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout rate_limit"},
	{"QPInitAttrEx", "struct ibv_qp_init_attr_ex",
		"qp_context send_cq recv_cq srq cap.max_send_wr cap.max_recv_wr cap.max_send_sge cap.max_recv_sge cap.max_inline_data qp_type sq_sig_all comp_mask pd xrcd create_flags source_qpn send_ops_flags"},
	{"SRQAttr", "struct ibv_srq_attr", "max_wr max_sge srq_limit"},
	{"SRQInitAttrEx", "struct ibv_srq_init_attr_ex",
		"srq_context attr.max_wr attr.max_sge attr.srq_limit comp_mask srq_type pd xrcd cq"},
	{"XRCDInitAttr", "struct ibv_xrcd_init_attr", "comp_mask fd oflags"},
	{"AsyncEvent", "struct ibv_async_event", "element.cq event_type"},
	{"CompChannel", "struct ibv_comp_channel", "context fd"},
	{"GIDEntry", "struct ibv_gid_entry", "gid gid_index port_num gid_type ndev_ifindex"},
	{"PortAttr", "struct ibv_port_attr", "state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl subnet_timeout init_type_reply active_width active_speed phys_state link_layer flags port_cap_flags2"},
	{"ConnParam", "struct rdma_conn_param", "private_data private_data_len responder_resources initiator_depth flow_control retry_count rnr_retry_count srq qp_num"},
	{"CMEvent", "struct rdma_cm_event", "id listen_id event status param.conn.private_data param.conn.private_data_len param.conn.responder_resources param.conn.initiator_depth param.conn.qp_num"},
	{"CMEventUD", "struct rdma_cm_event", "param.ud.private_data param.ud.private_data_len param.ud.ah_attr.grh.dgid param.ud.ah_attr.grh.flow_label param.ud.ah_attr.grh.sgid_index param.ud.ah_attr.grh.hop_limit " +
		"param.ud.ah_attr.grh.traffic_class param.ud.ah_attr.dlid param.ud.ah_attr.sl param.ud.ah_attr.src_path_bits param.ud.ah_attr.static_rate param.ud.ah_attr.is_global param.ud.ah_attr.port_num param.ud.qp_num param.ud.qkey"},
	{"DeviceAttrEx", "struct ibv_device_attr_ex",
		"orig_attr.fw_ver orig_attr.node_guid orig_attr.sys_image_guid orig_attr.max_mr_size orig_attr.page_size_cap orig_attr.vendor_id orig_attr.vendor_part_id orig_attr.hw_ver " +
			"orig_attr.max_qp orig_attr.max_qp_wr orig_attr.device_cap_flags orig_attr.max_sge orig_attr.max_sge_rd orig_attr.max_cq orig_attr.max_cqe orig_attr.max_mr orig_attr.max_pd orig_attr.max_qp_rd_atom orig_attr.max_qp_init_rd_atom " +
			"orig_attr.atomic_cap orig_attr.max_mw orig_attr.max_mcast_grp orig_attr.max_mcast_qp_attach orig_attr.max_ah orig_attr.max_srq orig_attr.max_srq_wr orig_attr.max_srq_sge orig_attr.max_pkeys orig_attr.local_ca_ack_delay orig_attr.phys_port_cnt " +
			"comp_mask odp_caps.general_caps odp_caps.per_transport_caps.rc_odp_caps odp_caps.per_transport_caps.uc_odp_caps odp_caps.per_transport_caps.ud_odp_caps completion_timestamp_mask hca_core_clock device_cap_flags_ex phys_port_cnt_ex"},
}

// consts are offsets and sizes: an expression of C for each name.
var consts = []struct{ name, c string }{
	{"CtxPollCQ", "offsetof(struct ibv_context, ops.poll_cq)"},
	{"CtxReqNotifyCQ", "offsetof(struct ibv_context, ops.req_notify_cq)"},
	{"CtxPostSRQRecv", "offsetof(struct ibv_context, ops.post_srq_recv)"},
	{"CtxPostSend", "offsetof(struct ibv_context, ops.post_send)"},
	{"CtxPostRecv", "offsetof(struct ibv_context, ops.post_recv)"},
	{"CtxAllocMW", "offsetof(struct ibv_context, ops.alloc_mw)"},
	{"CtxBindMW", "offsetof(struct ibv_context, ops.bind_mw)"},
	{"CtxDeallocMW", "offsetof(struct ibv_context, ops.dealloc_mw)"},
	{"CtxDevice", "offsetof(struct ibv_context, device)"},
	{"CtxAsyncFD", "offsetof(struct ibv_context, async_fd)"},
	{"CtxMutex", "offsetof(struct ibv_context, mutex)"},
	// The fields before the context: their distance to it, backwards.
	{"BackSize", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, sz)"},
	{"BackQueryPort", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_port)"},
	{"BackAdviseMR", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, advise_mr)"},
	{"BackQueryDeviceEx", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_device_ex)"},
	{"BackCreateQPEx", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, create_qp_ex)"},
	{"BackGetSRQNum", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, get_srq_num)"},
	{"BackCreateSRQEx", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, create_srq_ex)"},
	{"BackOpenXRCD", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, open_xrcd)"},
	{"BackCloseXRCD", "offsetof(struct verbs_context, context) - offsetof(struct verbs_context, close_xrcd)"},
	{"CQEntries", "offsetof(struct ibv_cq, cqe)"},
	{"QPNum", "offsetof(struct ibv_qp, qp_num)"},
	{"DeviceTransport", "offsetof(struct ibv_device, transport_type)"},
	{"DeviceName", "offsetof(struct ibv_device, name)"},
	{"IDVerbs", "offsetof(struct rdma_cm_id, verbs)"},
	{"IDSource", "offsetof(struct rdma_cm_id, route.addr.src_storage)"},
	{"IDDestination", "offsetof(struct rdma_cm_id, route.addr.dst_storage)"},
	{"PSTCP", "RDMA_PS_TCP"},
	{"PSUDP", "RDMA_PS_UDP"},
	{"OptionID", "RDMA_OPTION_ID"},
	{"OptionIDTOS", "RDMA_OPTION_ID_TOS"},
	{"OptionIDReuseaddr", "RDMA_OPTION_ID_REUSEADDR"},
	{"CMAddrResolved", "RDMA_CM_EVENT_ADDR_RESOLVED"},
	{"CMAddrError", "RDMA_CM_EVENT_ADDR_ERROR"},
	{"CMRouteResolved", "RDMA_CM_EVENT_ROUTE_RESOLVED"},
	{"CMRouteError", "RDMA_CM_EVENT_ROUTE_ERROR"},
	{"CMConnectRequest", "RDMA_CM_EVENT_CONNECT_REQUEST"},
	{"CMConnectResponse", "RDMA_CM_EVENT_CONNECT_RESPONSE"},
	{"CMConnectError", "RDMA_CM_EVENT_CONNECT_ERROR"},
	{"CMUnreachable", "RDMA_CM_EVENT_UNREACHABLE"},
	{"CMRejected", "RDMA_CM_EVENT_REJECTED"},
	{"CMEstablished", "RDMA_CM_EVENT_ESTABLISHED"},
	{"CMDisconnected", "RDMA_CM_EVENT_DISCONNECTED"},
	{"CMMulticastJoin", "RDMA_CM_EVENT_MULTICAST_JOIN"},
	{"CMMulticastError", "RDMA_CM_EVENT_MULTICAST_ERROR"},
	{"CMDeviceRemoval", "RDMA_CM_EVENT_DEVICE_REMOVAL"},
	{"CMTimewaitExit", "RDMA_CM_EVENT_TIMEWAIT_EXIT"},
	{"DeviceUverbs", "offsetof(struct ibv_device, dev_name)"},
}

// enums are the constants of C, without IBV_, by the Go type that they have. Constants of a mask of attributes have
// Mask in front in Go.
var enums = []struct{ typ, width, doc, names string }{
	{"Transport", "uint32", "enum ibv_transport_type", "TRANSPORT_IB TRANSPORT_IWARP"},
	{"QPState", "uint32", "enum ibv_qp_state", "QPS_RESET QPS_INIT QPS_RTR QPS_RTS QPS_SQD QPS_SQE QPS_ERR"},
	{"QPType", "uint32", "enum ibv_qp_type", "QPT_RC QPT_UC QPT_UD QPT_XRC_SEND QPT_XRC_RECV"},
	{"QPAttrMask", "uint32", "enum ibv_qp_attr_mask",
		"QP_STATE QP_CUR_STATE QP_EN_SQD_ASYNC_NOTIFY QP_ACCESS_FLAGS QP_PKEY_INDEX QP_PORT QP_QKEY QP_AV QP_PATH_MTU " +
			"QP_TIMEOUT QP_RETRY_CNT QP_RNR_RETRY QP_RQ_PSN QP_MAX_QP_RD_ATOMIC QP_ALT_PATH QP_MIN_RNR_TIMER QP_SQ_PSN QP_MAX_DEST_RD_ATOMIC QP_PATH_MIG_STATE QP_CAP QP_DEST_QPN QP_RATE_LIMIT"},
	{"AccessFlags", "uint32", "enum ibv_access_flags",
		"ACCESS_LOCAL_WRITE ACCESS_REMOTE_WRITE ACCESS_REMOTE_READ ACCESS_REMOTE_ATOMIC ACCESS_MW_BIND ACCESS_ZERO_BASED " +
			"ACCESS_ON_DEMAND ACCESS_HUGETLB ACCESS_RELAXED_ORDERING"},
	{"WROpcode", "uint32", "enum ibv_wr_opcode",
		"WR_SEND WR_SEND_WITH_IMM WR_SEND_WITH_INV WR_RDMA_WRITE WR_RDMA_WRITE_WITH_IMM WR_RDMA_READ WR_ATOMIC_CMP_AND_SWP " +
			"WR_ATOMIC_FETCH_AND_ADD WR_LOCAL_INV WR_BIND_MW"},
	{"SendFlags", "uint32", "enum ibv_send_flags", "SEND_FENCE SEND_SIGNALED SEND_SOLICITED SEND_INLINE"},
	{"WCOpcode", "uint32", "enum ibv_wc_opcode",
		"WC_SEND WC_RDMA_WRITE WC_RDMA_READ WC_COMP_SWAP WC_FETCH_ADD WC_BIND_MW WC_LOCAL_INV WC_RECV WC_RECV_RDMA_WITH_IMM"},
	{"WCFlags", "uint32", "enum ibv_wc_flags", "WC_GRH WC_WITH_IMM WC_WITH_INV"},
	{"WCStatus", "uint32", "enum ibv_wc_status",
		"WC_SUCCESS WC_LOC_LEN_ERR WC_LOC_QP_OP_ERR WC_LOC_PROT_ERR WC_WR_FLUSH_ERR WC_MW_BIND_ERR WC_REM_INV_REQ_ERR WC_REM_ACCESS_ERR " +
			"WC_REM_OP_ERR WC_RETRY_EXC_ERR WC_RNR_RETRY_EXC_ERR WC_GENERAL_ERR"},
	{"MTU", "uint32", "enum ibv_mtu", "MTU_256 MTU_4096"},
	{"MWType", "uint32", "enum ibv_mw_type", "MW_TYPE_1 MW_TYPE_2"},
	{"SRQType", "uint32", "enum ibv_srq_type", "SRQT_BASIC SRQT_XRC"},
	{"SRQAttrMask", "uint32", "enum ibv_srq_attr_mask", "SRQ_MAX_WR SRQ_LIMIT"},
	{"SRQInitMask", "uint32", "enum ibv_srq_init_attr_mask",
		"SRQ_INIT_ATTR_TYPE SRQ_INIT_ATTR_PD SRQ_INIT_ATTR_XRCD SRQ_INIT_ATTR_CQ"},
	{"QPInitMask", "uint32", "enum ibv_qp_init_attr_mask",
		"QP_INIT_ATTR_PD QP_INIT_ATTR_XRCD QP_INIT_ATTR_CREATE_FLAGS"},
	{"QPCreateFlags", "uint32", "enum ibv_qp_create_flags", "QP_CREATE_BLOCK_SELF_MCAST_LB"},
	{"XRCDInitMask", "uint32", "enum ibv_xrcd_init_attr_mask", "XRCD_INIT_ATTR_FD XRCD_INIT_ATTR_OFLAGS"},
	{"ReregMRFlags", "uint32", "enum ibv_rereg_mr_flags",
		"REREG_MR_CHANGE_TRANSLATION REREG_MR_CHANGE_PD REREG_MR_CHANGE_ACCESS"},
	{"EventType", "uint32", "enum ibv_event_type",
		"EVENT_CQ_ERR EVENT_QP_FATAL EVENT_QP_REQ_ERR EVENT_QP_ACCESS_ERR EVENT_COMM_EST EVENT_SQ_DRAINED EVENT_PATH_MIG EVENT_PATH_MIG_ERR " +
			"EVENT_DEVICE_FATAL EVENT_PORT_ACTIVE EVENT_PORT_ERR EVENT_LID_CHANGE EVENT_PKEY_CHANGE EVENT_SM_CHANGE EVENT_SRQ_ERR EVENT_SRQ_LIMIT_REACHED EVENT_QP_LAST_WQE_REACHED " +
			"EVENT_CLIENT_REREGISTER EVENT_GID_CHANGE"},
	{"AtomicCap", "uint32", "enum ibv_atomic_cap", "ATOMIC_NONE ATOMIC_HCA ATOMIC_GLOB"},
	{"LinkLayer", "uint8", "the link layers of a port", "LINK_LAYER_INFINIBAND LINK_LAYER_ETHERNET"},
	{"GIDType", "uint32", "enum ibv_gid_type", "GID_TYPE_IB GID_TYPE_ROCE_V1 GID_TYPE_ROCE_V2"},
	{"DeviceCapFlags", "uint32", "enum ibv_device_cap_flags",
		"DEVICE_RC_RNR_NAK_GEN DEVICE_MEM_WINDOW DEVICE_MEM_WINDOW_TYPE_2B DEVICE_XRC DEVICE_MEM_MGT_EXTENSIONS DEVICE_SRQ_RESIZE " +
			"DEVICE_UD_AV_PORT_ENFORCE"},
	{"ODPCaps", "uint64", "enum ibv_odp_general_caps", "ODP_SUPPORT"},
	{"Advice", "uint32", "enum ibv_advise_mr_advice", "ADVISE_MR_ADVICE_PREFETCH ADVISE_MR_ADVICE_PREFETCH_WRITE"},
	{"AdviseFlags", "uint32", "enum ibv_advise_mr_flag", "ADVISE_MR_FLAG_FLUSH"},
}

// enumFields are the fields of structures that have one of these types, by their last name in C.
var enumFields = map[string]string{
	"opcode": "WROpcode", "send_flags": "SendFlags", "mw_access_flags": "AccessFlags", "qp_access_flags": "AccessFlags",
	"qp_state": "QPState", "cur_qp_state": "QPState", "path_mtu": "MTU", "max_mtu": "MTU", "active_mtu": "MTU",
	"qp_type": "QPType", "create_flags": "QPCreateFlags",
	"srq_type": "SRQType", "event_type": "EventType", "gid_type": "GIDType", "link_layer": "LinkLayer",
	"atomic_cap": "AtomicCap", "device_cap_flags": "DeviceCapFlags",
	"general_caps": "ODPCaps", "wc_flags": "WCFlags",
}

// typeOf returns the type of a field of a structure, by its name and size.
func typeOf(structure, field string, size int) string {
	last := field[strings.LastIndexByte(field, '.')+1:]
	switch {
	case structure == "WC" && last == "opcode":
		return "WCOpcode"
	case structure == "WC" && last == "status":
		return "WCStatus"
	case strings.HasPrefix(structure, "CMEvent") && last == "event":
		return "CMEventType"
	case structure == "MW" && last == "type":
		return "MWType"
	case strings.HasSuffix(structure, "InitAttrEx") && last == "comp_mask":
		return strings.TrimSuffix(structure, "AttrEx") + "Mask"
	case structure == "XRCDInitAttr" && last == "comp_mask":
		return "XRCDInitMask"
	case enumFields[last] != "":
		return enumFields[last]
	}
	if typ, ok := map[int]string{1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}[size]; ok {
		return typ
	}
	return fmt.Sprintf("[%d]byte", size)
}

// camel returns the exported Go name of one of C: orig_attr.max_qp is OrigAttrMaxQP.
func camel(c string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(c, func(r rune) bool { return r == '_' || r == '.' }) {
		w = strings.ToLower(w)
		switch w {
		case "qp", "cq", "srq", "mr", "mw", "wr", "wc", "sge", "pd", "ah", "xrc", "xrcd", "gid", "lid", "sl", "mtu",
			"psn", "id", "ud", "rc", "uc", "guid", "grh", "fd", "rnr", "rd":
			w = strings.ToUpper(w)
		case "sg":
			w = "SG"
		case "cqe":
			w = "CQE"
		default:
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		b.WriteString(w)
	}
	return b.String()
}

func main() {
	log.SetFlags(0)
	var c bytes.Buffer
	c.WriteString("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n")
	for i, s := range structs {
		fmt.Fprintf(&c, "printf(\"s %d %%zu\\n\", sizeof(%s));\n", i, s.c)
		for _, f := range strings.Fields(s.fields) {
			fmt.Fprintf(&c, "printf(\"f %d %s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", i, f, s.c,
				f, s.c, f)
		}
	}
	for i, k := range consts {
		fmt.Fprintf(&c, "printf(\"c %d %%zu\\n\", (size_t)(%s));\n", i, k.c)
	}
	for i, e := range enums {
		for _, name := range strings.Fields(e.names) {
			fmt.Fprintf(&c, "printf(\"e %d %s %%llu\\n\", (unsigned long long)IBV_%s);\n", i, name, name)
		}
	}
	fmt.Fprintf(&c, "return 0;\n}\n")
	lines := run(c.String())

	var out, test bytes.Buffer
	out.WriteString("// Code generated by gen.go; DO NOT EDIT.\n// SPDX-License-Identifier: Apache-2.0\n\n//go:build linux && (amd64 || arm64)\n\npackage ibverbs\n\n")
	test.WriteString("// Code generated by gen.go; DO NOT EDIT.\n// SPDX-License-Identifier: Apache-2.0\n\n//go:build linux && (amd64 || arm64)\n\npackage ibverbs\n\nimport \"reflect\"\n\n")
	test.WriteString("var layouts = []layout{\n")
	end, at := 0, 0 // of the present structure: its size, and how many bytes of it are written
	pad := func(to int) {
		if to > at {
			fmt.Fprintf(&out, "\t_ [%d]byte\n", to-at)
			at = to
		}
	}
	finish := func() {
		if end > 0 {
			pad(end)
			out.WriteString("}\n\n")
			test.WriteString("}},\n")
		}
		end, at = 0, 0
	}
	var rest []string
	for _, l := range lines {
		w := strings.Fields(l)
		switch w[0] {
		case "s":
			finish()
			s := structs[number(w[1])]
			end = number(w[2])
			fmt.Fprintf(&out, "// %s has %s.\ntype %s struct {\n", s.name, s.c, s.name)
			fmt.Fprintf(&test, "{%q, reflect.TypeFor[%s](), [][2]string{\n", s.c, s.name)
		case "f":
			offset, size := number(w[3]), number(w[4])
			if offset < at {
				log.Fatalf("%s overlaps what is before it: it is a member of a union", w[2])
			}
			pad(offset)
			fmt.Fprintf(&out, "\t%s %s\n", camel(w[2]), typeOf(structs[number(w[1])].name, w[2], size))
			fmt.Fprintf(&test, "{%q, %q},\n", w[2], camel(w[2]))
			at += size
		default:
			rest = append(rest, l)
		}
	}
	finish()
	test.WriteString("}\n\nvar numbers = []number{\n")
	out.WriteString("// CMEventType is enum rdma_cm_event_type.\ntype CMEventType uint32\n\n// Where fields are in structures of which the library has the whole; options and events of librdmacm.\nconst (\n")
	for _, l := range rest {
		if w := strings.Fields(l); w[0] == "c" {
			k := consts[number(w[1])]
			typ := ""
			if strings.HasPrefix(k.c, "RDMA_CM_EVENT_") {
				typ = "CMEventType"
			}
			fmt.Fprintf(&out, "\t%s %s = %s\n", k.name, typ, w[2])
			fmt.Fprintf(&test, "{%q, uint64(%s)},\n", k.c, k.name)
		}
	}
	out.WriteString(")\n")
	last := -1
	for _, l := range rest {
		w := strings.Fields(l)
		if w[0] != "e" {
			continue
		}
		i := number(w[1])
		e, name := enums[i], camel(w[2])
		if strings.HasSuffix(e.typ, "Mask") {
			name = "Mask" + name
		}
		if i != last {
			if last >= 0 {
				out.WriteString(")\n")
			}
			fmt.Fprintf(&out, "\n// %s is %s.\ntype %s %s\n\nconst (\n", e.typ, e.doc, e.typ, e.width)
			last = i
		}
		fmt.Fprintf(&out, "\t%s %s = %s\n", name, e.typ, w[3])
		fmt.Fprintf(&test, "{%q, uint64(%s)},\n", "IBV_"+w[2], name)
	}
	out.WriteString(")\n")
	test.WriteString("}\n")
	write("layout.go", out.Bytes())
	write("layouts_test.go", test.Bytes())
}

// run compiles and runs a C program and returns its output, in lines.
func run(source string) []string {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "layout.c")
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		log.Fatal(err)
	}
	binary := filepath.Join(dir, "layout")
	if out, err := exec.Command("cc", "-o", binary, name).CombinedOutput(); err != nil {
		log.Fatalf("cc: %v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		log.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func write(name string, source []byte) {
	text, err := format.Source(source)
	if err != nil {
		log.Fatalf("%s: %v\n%s", name, err, source)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		log.Fatal(err)
	}
}
