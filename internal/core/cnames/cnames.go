// SPDX-License-Identifier: Apache-2.0

// Package cnames has the names that the headers of libibverbs and librdmacm give to their constants, and the names of
// the constants that rsockets take from the headers of Linux.
package cnames

import (
	"fmt"
	"strings"
)

// enum is an enumeration of C. Its values count up from first.
type enum struct {
	prefix string // of all names
	first  uint64
	names  []string // without the prefix; empty: no constant has this value
}

// words splits a list of names. A - stands for a value without a name.
func words(s string) []string {
	w := strings.Fields(s)
	for i := range w {
		if w[i] == "-" {
			w[i] = ""
		}
	}
	return w
}

// flags are constants of C of one bit each: names[i] has bit i.
type flags struct {
	prefix string
	names  []string
}

var enums = map[string]enum{
	"qp_type":    {"IBV_QPT_", 2, words("RC UC UD - - - RAW_PACKET XRC_SEND XRC_RECV")},
	"qp_state":   {"IBV_QPS_", 0, words("RESET INIT RTR RTS SQD SQE ERR UNKNOWN")},
	"mtu":        {"IBV_MTU_", 1, words("256 512 1024 2048 4096")},
	"mw_type":    {"IBV_MW_TYPE_", 1, words("1 2")},
	"port_state": {"IBV_PORT_", 0, words("NOP DOWN INIT ARMED ACTIVE ACTIVE_DEFER")},
	"link_layer": {"IBV_LINK_LAYER_", 0, words("UNSPECIFIED INFINIBAND ETHERNET")},
	"advice":     {"IBV_ADVISE_MR_ADVICE_", 0, words("PREFETCH PREFETCH_WRITE PREFETCH_NO_FAULT")},
	"mig_state":  {"IBV_MIG_", 0, words("MIGRATED REARM ARMED")},
	"wr_opcode": {"IBV_WR_", 0, words("RDMA_WRITE RDMA_WRITE_WITH_IMM SEND SEND_WITH_IMM RDMA_READ " +
		"ATOMIC_CMP_AND_SWP ATOMIC_FETCH_AND_ADD LOCAL_INV BIND_MW SEND_WITH_INV TSO DRIVER1 - - FLUSH ATOMIC_WRITE")},
	"wc_status": {"IBV_WC_", 0, words("SUCCESS LOC_LEN_ERR LOC_QP_OP_ERR LOC_EEC_OP_ERR LOC_PROT_ERR WR_FLUSH_ERR " +
		"MW_BIND_ERR BAD_RESP_ERR LOC_ACCESS_ERR REM_INV_REQ_ERR REM_ACCESS_ERR REM_OP_ERR RETRY_EXC_ERR " +
		"RNR_RETRY_EXC_ERR LOC_RDD_VIOL_ERR REM_INV_RD_REQ_ERR REM_ABORT_ERR INV_EECN_ERR INV_EEC_STATE_ERR " +
		"FATAL_ERR RESP_TIMEOUT_ERR GENERAL_ERR")},
	"event_type": {"IBV_EVENT_", 0, words("CQ_ERR QP_FATAL QP_REQ_ERR QP_ACCESS_ERR COMM_EST SQ_DRAINED PATH_MIG " +
		"PATH_MIG_ERR DEVICE_FATAL PORT_ACTIVE PORT_ERR LID_CHANGE PKEY_CHANGE SM_CHANGE SRQ_ERR SRQ_LIMIT_REACHED " +
		"QP_LAST_WQE_REACHED CLIENT_REREGISTER GID_CHANGE")},
	"cm_event_type": {"RDMA_CM_EVENT_", 0, words("ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR " +
		"CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR UNREACHABLE REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL " +
		"MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT ADDRINFO_RESOLVED ADDRINFO_ERROR USER")},
	"shutdown_how": {"SHUT_", 0, words("RD WR RDWR")},
	"epoll_op":     {"EPOLL_CTL_", 1, words("ADD DEL MOD")},
}

var sparse = map[string]map[uint64]string{
	"port_space": {0x0002: "RDMA_PS_IPOIB", 0x0106: "RDMA_PS_TCP", 0x0111: "RDMA_PS_UDP", 0x013f: "RDMA_PS_IB"},
	"wc_opcode": {0: "IBV_WC_SEND", 1: "IBV_WC_RDMA_WRITE", 2: "IBV_WC_RDMA_READ", 3: "IBV_WC_COMP_SWAP",
		4: "IBV_WC_FETCH_ADD", 5: "IBV_WC_BIND_MW", 6: "IBV_WC_LOCAL_INV", 7: "IBV_WC_TSO", 8: "IBV_WC_FLUSH",
		9: "IBV_WC_ATOMIC_WRITE", 128: "IBV_WC_RECV", 129: "IBV_WC_RECV_RDMA_WITH_IMM"},
	"address_family": {0: "AF_UNSPEC", 2: "AF_INET", 10: "AF_INET6", 27: "AF_IB"},
	"socket_type":    {1: "SOCK_STREAM", 2: "SOCK_DGRAM"},
	"socket_level": {0: "IPPROTO_IP", 1: "SOL_SOCKET", 6: "IPPROTO_TCP", 17: "IPPROTO_UDP", 41: "IPPROTO_IPV6",
		0x10000: "SOL_RDMA"},
	"fcntl_cmd": {0: "F_DUPFD", 1: "F_GETFD", 2: "F_SETFD", 3: "F_GETFL", 4: "F_SETFL"},
}

// optionNames are the options of sockets, by the value of their level.
var optionNames = map[uint64]map[uint64]string{
	1: {2: "SO_REUSEADDR", 3: "SO_TYPE", 4: "SO_ERROR", 7: "SO_SNDBUF", 8: "SO_RCVBUF", 9: "SO_KEEPALIVE",
		10: "SO_OOBINLINE", 13: "SO_LINGER", 20: "SO_RCVTIMEO", 21: "SO_SNDTIMEO", 30: "SO_ACCEPTCONN"},
	6: {1: "TCP_NODELAY", 2: "TCP_MAXSEG", 3: "TCP_CORK", 4: "TCP_KEEPIDLE", 5: "TCP_KEEPINTVL", 6: "TCP_KEEPCNT",
		11: "TCP_INFO", 12: "TCP_QUICKACK", 18: "TCP_USER_TIMEOUT"},
	41:      {26: "IPV6_V6ONLY"},
	0x10000: {0: "RDMA_SQSIZE", 1: "RDMA_RQSIZE", 2: "RDMA_INLINE", 3: "RDMA_IOMAPSIZE", 4: "RDMA_ROUTE"},
}

// SocketOption returns the name of an option of a level.
func SocketOption(level, option uint64) string {
	if name, ok := optionNames[level][option]; ok {
		return name
	}
	return fmt.Sprint(option)
}

var masks = map[string]flags{
	"access": {"IBV_ACCESS_", words("LOCAL_WRITE REMOTE_WRITE REMOTE_READ REMOTE_ATOMIC MW_BIND ZERO_BASED " +
		"ON_DEMAND HUGETLB FLUSH_GLOBAL FLUSH_PERSISTENT - - - - - - - - - - RELAXED_ORDERING")},
	"rereg":    {"IBV_REREG_MR_CHANGE_", words("TRANSLATION PD ACCESS")},
	"srq_mask": {"IBV_SRQ_", words("MAX_WR LIMIT")},
	"qp_mask": {"IBV_QP_", words("STATE CUR_STATE EN_SQD_ASYNC_NOTIFY ACCESS_FLAGS PKEY_INDEX PORT QKEY AV " +
		"PATH_MTU TIMEOUT RETRY_CNT RNR_RETRY RQ_PSN MAX_QP_RD_ATOMIC ALT_PATH MIN_RNR_TIMER SQ_PSN " +
		"MAX_DEST_RD_ATOMIC PATH_MIG_STATE CAP DEST_QPN - - - - RATE_LIMIT")},
	"msg_flags":  {"MSG_", words("OOB PEEK DONTROUTE - - TRUNC DONTWAIT EOR WAITALL - - - - - NOSIGNAL MORE")},
	"poll_mask":  {"POLL", words("IN PRI OUT ERR HUP NVAL")},
	"map_prot":   {"PROT_", words("READ WRITE EXEC")},
	"send_flags": {"IBV_SEND_", words("FENCE SIGNALED SOLICITED INLINE IP_CSUM")},
	"wc_flags":   {"IBV_WC_", words("GRH WITH_IMM IP_CSUM_OK WITH_INV")},
	"qp_ops": {"IBV_QP_EX_WITH_", words("RDMA_WRITE RDMA_WRITE_WITH_IMM SEND SEND_WITH_IMM RDMA_READ " +
		"ATOMIC_CMP_AND_SWP ATOMIC_FETCH_AND_ADD LOCAL_INV BIND_MW SEND_WITH_INV TSO FLUSH ATOMIC_WRITE")},
	"wc_fields": {"IBV_WC_EX_WITH_", words("BYTE_LEN IMM QP_NUM SRC_QP SLID SL DLID_PATH_BITS COMPLETION_TIMESTAMP " +
		"CVLAN FLOW_TAG TM_INFO COMPLETION_TIMESTAMP_WALLCLOCK")},
}

// Of returns a number as constants of C: that of an enumeration, or flags with | between them. typ names the
// enumeration as internal/core/calllog's table does. A number without a constant stands for itself.
func Of(typ string, v uint64) string {
	if f, ok := masks[typ]; ok {
		return f.of(v)
	}
	if s, ok := sparse[typ][v]; ok {
		return s
	}
	if e, ok := enums[typ]; ok && v >= e.first && v-e.first < uint64(len(e.names)) && e.names[v-e.first] != "" {
		return e.prefix + e.names[v-e.first]
	}
	return fmt.Sprint(v)
}

// Has reports whether there are constants of a type.
func Has(typ string) bool {
	_, flag := masks[typ]
	_, few := sparse[typ]
	_, many := enums[typ]
	return flag || few || many
}

// Names returns the names of an enumeration without their prefix, which comes with them: names[i] has the value i.
func Names(typ string) (prefix string, names []string) {
	e := enums[typ]
	return e.prefix, e.names
}

func (f flags) of(v uint64) string {
	if v == 0 {
		return "0"
	}
	var set []string
	for i, n := range f.names {
		if bit := uint64(1) << i; v&bit != 0 && n != "" {
			set = append(set, f.prefix+n)
			v &^= bit
		}
	}
	if v != 0 {
		set = append(set, fmt.Sprintf("%#x", v))
	}
	return strings.Join(set, "|")
}
