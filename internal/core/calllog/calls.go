// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"slices"
	"strings"
)

// Param is a parameter of a call.
type Param struct {
	Name string // its name in C
	Type string // a type of the table
	Out  bool   // the call fills in the memory that it points to
}

// Call is a call of libibverbs or librdmacm, rsockets among them.
type Call struct {
	Name   string
	Params []Param
	Result string // a result of the table
}

// Kinds are the kinds of objects, as the log and the filter name them.
var Kinds = strings.Fields("context pd td mr mw ah channel cq srq qp xrcd cmchannel id event")

// Calls are the calls of C, sorted by name. docs/log.md lists the functions that are not logged.
var Calls = parseCalls()

// Find returns a call by its name, or nil.
func Find(name string) *Call {
	i, ok := slices.BinarySearchFunc(Calls, name, func(c Call, n string) int { return strings.Compare(c.Name, n) })
	if ok {
		return &Calls[i]
	}
	return nil
}

// Destroys reports whether a call destroys the object that it names first.
func (c *Call) Destroys() bool {
	if len(c.Params) == 0 || !slices.Contains(Kinds, c.Params[0].Type) {
		return false
	}
	for _, word := range []string{"_destroy_", "_dealloc_", "_dereg_", "_close_", "_unimport_", "rdma_ack_cm_event"} {
		if strings.Contains(c.Name, word) {
			return true
		}
	}
	return false
}

// names are the names of all calls: of the two libraries, and ofGo.
var names = func() (all []string) {
	for i := range Calls {
		all = append(all, Calls[i].Name)
	}
	return append(all, ofGo...)
}()

// ofGo are calls of packages verbs and cm that C does not have.
var ofGo = []string{"ibv_alloc_mr", "ibv_reg_shared_mr"}

// DataPath reports whether programs make a call for each message.
func DataPath(call string) bool {
	switch call {
	case "ibv_post_send", "ibv_post_recv", "ibv_post_srq_recv", "ibv_poll_cq", "ibv_req_notify_cq", "ibv_get_cq_event",
		"ibv_ack_cq_events", "ibv_wr_complete", "ibv_start_poll", "ibv_next_poll", "ibv_end_poll", "ibv_bind_mw",
		"rrecv", "rrecvfrom", "rrecvmsg", "rsend", "rsendto", "rsendmsg", "rread", "rreadv", "rwrite", "rwritev",
		"rpoll", "rselect", "riowrite", "repoll_wait":
		return true
	}
	return false
}

// table has a call in each line: its name, its parameters and their types, > before its outputs, and the meaning of its
// result: 0 (or an errno), -1 (and errno), n (a number, or -1 and errno), size (such a number of 64 bits), void, value,
// str, port and guid (numbers in network order), ptr (or NULL and errno), or an object of that kind (or NULL and
// errno). In types, names are those of [Kinds], or of package main of cabi; int, u, hex, str and ptr are numbers,
// strings and pointers.
const table = `
ibv_get_device_list >num_devices:intp = ptr
ibv_free_device_list list:ptr = void
ibv_open_device device:device = context
ibv_close_device context:context = 0
ibv_import_device cmd_fd:int = context
ibv_import_pd context:context handle:u = pd
ibv_unimport_pd pd:pd = void
ibv_import_mr pd:pd handle:u = mr
ibv_unimport_mr mr:mr = void
ibv_query_device context:context >attr:device_attr = 0
ibv_query_device_ex context:context input:ptr >attr:device_attr size:u = 0
ibv_query_port context:context port_num:u8 >attr:port_attr = 0
ibv_query_port_speed context:context port_num:u >speed:u64p = 0
ibv_query_gid context:context port_num:u8 index:int >gid:gid = -1
ibv_query_gid_ex context:context port_num:u gid_index:u >entry:gid_entry flags:hex size:u = 0
ibv_query_gid_table context:context >entries:gid_table max_entries:u flags:hex size:u = n
ibv_query_pkey context:context port_num:u8 index:int >pkey:be16p = -1
ibv_get_pkey_index context:context port_num:u8 pkey:be16 = n
ibv_resolve_eth_l2_from_gid context:context attr:ah_attr >eth_mac:mac vid:ptr = 0
ibv_query_rt_values_ex context:context values:ptr = 0
ibv_get_async_event context:context >event:async_event = -1
ibv_ack_async_event event:async_event = void
ibv_alloc_pd context:context = pd
ibv_dealloc_pd pd:pd = 0
ibv_alloc_td context:context attr:ptr = td
ibv_dealloc_td td:td = 0
ibv_alloc_parent_domain context:context attr:parent_attr = pd
ibv_reg_mr pd:pd addr:ptr length:u access:access = mr
ibv_reg_mr_iova pd:pd addr:ptr length:u iova:hex access:access = mr
ibv_reg_mr_iova2 pd:pd addr:ptr length:u iova:hex access:access = mr
ibv_reg_mr_ex pd:pd attr:ptr = mr
ibv_reg_dmabuf_mr pd:pd offset:u length:u iova:hex fd:int access:access = mr
ibv_reg_buf_mr pd:pd buf:ptr addr:ptr length:u access:access = mr
ibv_alloc_null_mr pd:pd = mr
ibv_rereg_mr mr:mr flags:rereg pd:pd addr:ptr length:u access:access = 0
ibv_dereg_mr mr:mr = 0
ibv_advise_mr pd:pd advice:advice flags:hex sg_list:ptr num_sge:u = 0
ibv_alloc_mw pd:pd type:mw_type = mw
ibv_dealloc_mw mw:mw = 0
ibv_bind_mw qp:qp mw:mw mw_bind:mw_bind = 0
ibv_create_comp_channel context:context = channel
ibv_destroy_comp_channel channel:channel = 0
ibv_get_cq_event channel:channel >cq:cqp >cq_context:ptrp = -1
ibv_ack_cq_events cq:cq nevents:u = void
ibv_create_cq context:context cqe:int cq_context:ptr channel:channel comp_vector:int = cq
ibv_create_cq_ex context:context attr:cq_attr_ex = cq
ibv_resize_cq cq:cq cqe:int = 0
ibv_destroy_cq cq:cq = 0
ibv_req_notify_cq cq:cq solicited_only:int = 0
ibv_poll_cq cq:cq num_entries:int >wc:wcs = n
ibv_start_poll cq:cq attr:ptr = 0
ibv_next_poll cq:cq = 0
ibv_end_poll cq:cq = void
ibv_open_xrcd context:context attr:xrcd_attr = xrcd
ibv_close_xrcd xrcd:xrcd = 0
ibv_create_srq pd:pd attr:srq_init = srq
ibv_create_srq_ex context:context attr:srq_init_ex = srq
ibv_modify_srq srq:srq attr:srq_attr attr_mask:srq_mask = 0
ibv_query_srq srq:srq >attr:srq_attr = 0
ibv_get_srq_num srq:srq >srq_num:u32p = 0
ibv_destroy_srq srq:srq = 0
ibv_post_srq_recv srq:srq wr:recv_wrs bad_wr:ptr = 0
ibv_create_qp pd:pd attr:qp_init = qp
ibv_create_qp_ex context:context attr:qp_init_ex = qp
ibv_modify_qp qp:qp attr:qp_attr attr_mask:qp_mask = 0
ibv_query_qp qp:qp >attr:qp_attr attr_mask:qp_mask init_attr:ptr = 0
ibv_query_qp_data_in_order qp:qp op:wr_opcode flags:hex = value
ibv_destroy_qp qp:qp = 0
ibv_set_ece qp:qp ece:ptr = 0
ibv_query_ece qp:qp ece:ptr = 0
ibv_attach_mcast qp:qp gid:gid lid:u16 = 0
ibv_detach_mcast qp:qp gid:gid lid:u16 = 0
ibv_post_send qp:qp wr:send_wrs bad_wr:ptr = 0
ibv_post_recv qp:qp wr:recv_wrs bad_wr:ptr = 0
ibv_wr_complete qp:qp wr:send_wrs = 0
ibv_create_ah pd:pd attr:ah_attr = ah
ibv_create_ah_from_wc pd:pd wc:ptr grh:ptr port_num:u8 = ah
ibv_init_ah_from_wc context:context port_num:u8 wc:ptr grh:ptr >attr:ah_attr = 0
ibv_destroy_ah ah:ah = 0
ibv_get_device_name device:device = str
ibv_get_device_index device:device = n
ibv_get_device_guid device:device = guid
ibv_node_type_str node_type:int = str
ibv_port_state_str port_state:port_state = str
ibv_event_type_str event:event_type = str
ibv_wc_status_str status:wc_status = str
ibv_rate_to_mult rate:int = value
mult_to_ibv_rate mult:int = value
ibv_rate_to_mbps rate:int = value
mbps_to_ibv_rate mbps:int = value
ibv_copy_ah_attr_from_kern >dst:ah_attr src:ptr = void
ibv_copy_qp_attr_from_kern >dst:qp_attr src:ptr = void
ibv_copy_path_rec_from_kern dst:ptr src:ptr = void
ibv_copy_path_rec_to_kern dst:ptr src:ptr = void
ibv_qp_to_qp_ex qp:qp = ptr
ibv_get_sysfs_path = str
ibv_read_sysfs_file dir:str file:str buf:ptr size:u = n
ibv_fork_init = 0
ibv_is_fork_initialized = value
ibv_dontfork_range base:ptr size:u = 0
ibv_dofork_range base:ptr size:u = 0
ibv_alloc_buf pd:pd size:u >buf:ptrp = ptr
ibv_free_buf buf:ptr = void
ibv_import_dm context:context handle:u = ptr
ibv_unimport_dm dm:ptr = void
ibv_dm_export_dmabuf_fd dm:ptr = n
ibv_export_buf_dmabuf_fd buf:ptr = n
ibv_alloc_dmah context:context attr:ptr = ptr
ibv_dealloc_dmah dmah:ptr = 0
ibv_query_comp_cntr_caps context:context caps:ptr size:u = 0
ibv_create_comp_cntr context:context attr:ptr = ptr
ibv_destroy_comp_cntr counter:ptr = 0
ibv_set_comp_cntr counter:ptr value:u = 0
ibv_set_err_comp_cntr counter:ptr value:u = 0
ibv_inc_comp_cntr counter:ptr amount:u = 0
ibv_inc_err_comp_cntr counter:ptr amount:u = 0
ibv_read_comp_cntr counter:ptr >value:u64p = 0
ibv_read_err_comp_cntr counter:ptr >value:u64p = 0
ibv_qp_attach_comp_cntr qp:qp counter:ptr attr:ptr = 0
rdma_create_event_channel = cmchannel
rdma_destroy_event_channel channel:cmchannel = void
rdma_get_cm_event channel:cmchannel >event:cm_eventp = -1
rdma_ack_cm_event event:event = -1
rdma_create_id channel:cmchannel >id:idp context:ptr ps:port_space = -1
rdma_destroy_id id:id = -1
rdma_create_ep >id:idp res:addrinfo pd:pd qp_init_attr:qp_init = -1
rdma_destroy_ep id:id = void
rdma_migrate_id id:id channel:cmchannel = -1
rdma_bind_addr id:id addr:sockaddr = -1
rdma_resolve_addr id:id src_addr:sockaddr dst_addr:sockaddr timeout_ms:int = -1
rdma_resolve_route id:id timeout_ms:int = -1
rdma_listen id:id backlog:int = -1
rdma_get_request listen:id >id:idp = -1
rdma_connect id:id conn_param:conn_param = -1
rdma_accept id:id conn_param:conn_param = -1
rdma_establish id:id = -1
rdma_reject id:id private_data:ptr private_data_len:u8 = -1
rdma_reject_ece id:id private_data:ptr private_data_len:u8 = -1
rdma_notify id:id event:event_type = -1
rdma_disconnect id:id = -1
rdma_join_multicast id:id addr:sockaddr context:ptr = -1
rdma_join_multicast_ex id:id attr:ptr context:ptr = -1
rdma_leave_multicast id:id addr:sockaddr = -1
rdma_set_option id:id level:int optname:int optval:ptr optlen:u = -1
rdma_init_qp_attr id:id >qp_attr:qp_attr qp_attr_mask:ptr = -1
rdma_set_local_ece id:id ece:ptr = -1
rdma_get_remote_ece id:id ece:ptr = -1
rdma_create_qp id:id pd:pd attr:qp_init = -1
rdma_create_qp_ex id:id attr:qp_init_ex = -1
rdma_destroy_qp id:id = void
rdma_create_srq id:id pd:pd attr:srq_init = -1
rdma_create_srq_ex id:id attr:srq_init_ex = -1
rdma_destroy_srq id:id = void
rdma_get_devices >num_devices:intp = ptr
rdma_free_devices list:ptr = void
rdma_getaddrinfo node:str service:str hints:addrinfo >res:addrinfop = -1
rdma_resolve_addrinfo id:id node:str service:str hints:addrinfo = -1
rdma_query_addrinfo id:id >info:addrinfop = -1
rdma_freeaddrinfo res:ptr = void
rdma_get_src_port id:id = port
rdma_get_dst_port id:id = port
rdma_event_str event:cm_event_type = str
rdma_write_cm_event id:id event:cm_event_type status:int arg:hex = -1
rsocket domain:address_family type:socket protocol:int = n
rbind socket:int addr:sockaddr addrlen:u = -1
rlisten socket:int backlog:int = -1
raccept socket:int >addr:sockaddr addrlen:ptr = n
rconnect socket:int addr:sockaddr addrlen:u = -1
rshutdown socket:int how:shutdown_how = -1
rclose socket:int = -1
rrecv socket:int buf:ptr len:u flags:msg_flags = size
rrecvfrom socket:int buf:ptr len:u flags:msg_flags >src_addr:sockaddr addrlen:ptr = size
rrecvmsg socket:int >msg:msghdr flags:msg_flags = size
rsend socket:int buf:ptr len:u flags:msg_flags = size
rsendto socket:int buf:ptr len:u flags:msg_flags dest_addr:sockaddr addrlen:u = size
rsendmsg socket:int msg:msghdr flags:msg_flags = size
rread socket:int buf:ptr count:u = size
rreadv socket:int iov:iovec iovcnt:int = size
rwrite socket:int buf:ptr count:u = size
rwritev socket:int iov:iovec iovcnt:int = size
rpoll >fds:pollfds nfds:u timeout:int = n
rselect nfds:int readfds:ptr writefds:ptr exceptfds:ptr timeout:timeval = n
rgetpeername socket:int >addr:sockaddr addrlen:ptr = -1
rgetsockname socket:int >addr:sockaddr addrlen:ptr = -1
rsetsockopt socket:int level:socket_level optname:sockopt optval:sockopt_value optlen:u = -1
rgetsockopt socket:int level:socket_level optname:sockopt >optval:sockopt_value optlen:ptr = -1
rfcntl socket:int cmd:fcntl_cmd arg:hex = n
riomap socket:int buf:ptr len:u prot:map_prot flags:hex offset:offset = size
riounmap socket:int buf:ptr len:u = -1
riowrite socket:int buf:ptr count:u offset:offset flags:hex = size
repoll_create flags:hex = n
repoll_ctl epfd:int op:epoll_op fd:int event:ptr = -1
repoll_wait epfd:int events:ptr maxevents:int timeout:int = n
`

// parseCalls reads the table.
func parseCalls() (calls []Call) {
	for line := range strings.Lines(strings.TrimSpace(table)) {
		words := strings.Fields(line)
		c := Call{Name: words[0], Result: words[len(words)-1]}
		for _, w := range words[1 : len(words)-2] {
			w, out := strings.CutPrefix(w, ">")
			name, typ, _ := strings.Cut(w, ":")
			c.Params = append(c.Params, Param{name, typ, out})
		}
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b Call) int { return strings.Compare(a.Name, b.Name) })
	return calls
}
