/* SPDX-License-Identifier: Apache-2.0 */

/* The functions that programs call through tables: OP(result, name, field of struct rj_context, (parameters),
 * (arguments)). See logged.h. */
OP(int, ibv_query_port, v.query_port, (struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size),
	(context, port, attr, size))
OP(int, ibv_query_device_ex, v.query_device_ex, (struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t size), (context, input, attr, size))
OP(int, ibv_query_rt_values_ex, v.query_rt_values, (struct ibv_context *context, struct ibv_values_ex *values), (context, values))
OP(struct ibv_mw *, ibv_alloc_mw, v.context.ops.alloc_mw, (struct ibv_pd *pd, enum ibv_mw_type type), (pd, type))
OP(int, ibv_bind_mw, v.context.ops.bind_mw, (struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind), (qp, mw, bind))
OP(int, ibv_dealloc_mw, v.context.ops.dealloc_mw, (struct ibv_mw *mw), (mw))
OP(int, ibv_advise_mr, v.advise_mr, (struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
	uint32_t n), (pd, advice, flags, list, n))
OP(struct ibv_mr *, ibv_alloc_null_mr, v.alloc_null_mr, (struct ibv_pd *pd), (pd))
OP(struct ibv_td *, ibv_alloc_td, v.alloc_td, (struct ibv_context *context, struct ibv_td_init_attr *attr), (context, attr))
OP(int, ibv_dealloc_td, v.dealloc_td, (struct ibv_td *td), (td))
OP(struct ibv_pd *, ibv_alloc_parent_domain, v.alloc_parent_domain, (struct ibv_context *context,
	struct ibv_parent_domain_init_attr *attr), (context, attr))
OP(struct ibv_cq_ex *, ibv_create_cq_ex, v.create_cq_ex, (struct ibv_context *context, struct ibv_cq_init_attr_ex *attr),
	(context, attr))
OP(struct ibv_xrcd *, ibv_open_xrcd, v.open_xrcd, (struct ibv_context *context, struct ibv_xrcd_init_attr *attr), (context, attr))
OP(int, ibv_close_xrcd, v.close_xrcd, (struct ibv_xrcd *xrcd), (xrcd))
OP(struct ibv_srq *, ibv_create_srq_ex, v.create_srq_ex, (struct ibv_context *context, struct ibv_srq_init_attr_ex *attr),
	(context, attr))
OP(int, ibv_get_srq_num, v.get_srq_num, (struct ibv_srq *srq, uint32_t *num), (srq, num))
OP(struct ibv_qp *, ibv_create_qp_ex, v.create_qp_ex, (struct ibv_context *context, struct ibv_qp_init_attr_ex *attr),
	(context, attr))
OP(int, ibv_post_send, v.context.ops.post_send, (struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad), (qp, wr, bad))
OP(int, ibv_post_recv, v.context.ops.post_recv, (struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), (qp, wr, bad))
OP(int, ibv_post_srq_recv, v.context.ops.post_srq_recv, (struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad),
	(srq, wr, bad))
OP(int, ibv_poll_cq, v.context.ops.poll_cq, (struct ibv_cq *cq, int room, struct ibv_wc *wc), (cq, room, wc))
OP(int, ibv_req_notify_cq, v.context.ops.req_notify_cq, (struct ibv_cq *cq, int solicited_only), (cq, solicited_only))
