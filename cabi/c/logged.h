/* SPDX-License-Identifier: Apache-2.0 */

/* The functions of libibverbs that `ramjet run --log` logs: LOGGED(result, name, (parameters), (arguments)), and
 * LOGGED_VOID without the result. log.c has what programs call, which logs the call and makes it; the functions
 * themselves are called rj_do_NAME in the libraries. The table of internal/core/calllog says what is in the arguments. */
struct ibv_mr_init_attr; /* of newer headers, see recent.c */
struct ibv_buf;

LOGGED(struct ibv_device **, ibv_get_device_list, (int *num), (num))
LOGGED_VOID(ibv_free_device_list, (struct ibv_device **list), (list))
LOGGED(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device))
LOGGED(int, ibv_close_device, (struct ibv_context *context), (context))
LOGGED(struct ibv_context *, ibv_import_device, (int fd), (fd))
LOGGED(struct ibv_pd *, ibv_import_pd, (struct ibv_context *c, uint32_t h), (c, h))
LOGGED_VOID(ibv_unimport_pd, (struct ibv_pd *pd), (pd))
LOGGED(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t h), (pd, h))
LOGGED_VOID(ibv_unimport_mr, (struct ibv_mr *mr), (mr))
LOGGED(int, ibv_query_device, (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr))
LOGGED(int, ibv_query_port, (struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr), (context, port, attr))
LOGGED(int, ibv_query_port_speed, (struct ibv_context *context, uint32_t port, uint64_t *speed), (context, port, speed))
LOGGED(int, ibv_query_gid, (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid), (context, port, index, gid))
LOGGED(int, _ibv_query_gid_ex, (struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
	uint32_t flags, size_t size), (context, port, index, entry, flags, size))
LOGGED(ssize_t, _ibv_query_gid_table, (struct ibv_context *context, struct ibv_gid_entry *entries, size_t room, uint32_t flags,
	size_t size), (context, entries, room, flags, size))
LOGGED(int, ibv_query_pkey, (struct ibv_context *context, uint8_t port, int index, __be16 *pkey), (context, port, index, pkey))
LOGGED(int, ibv_get_pkey_index, (struct ibv_context *context, uint8_t port, __be16 pkey), (context, port, pkey))
LOGGED(int, ibv_resolve_eth_l2_from_gid, (struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
	uint16_t *vid), (context, attr, mac, vid))
LOGGED(int, ibv_get_async_event, (struct ibv_context *context, struct ibv_async_event *event), (context, event))
LOGGED_VOID(ibv_ack_async_event, (struct ibv_async_event *event), (event))
LOGGED(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context))
LOGGED(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd))
LOGGED(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access))
LOGGED(struct ibv_mr *, ibv_reg_mr_iova, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
	(pd, addr, length, iova, access))
LOGGED(struct ibv_mr *, ibv_reg_mr_iova2, (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access),
	(pd, addr, length, iova, access))
LOGGED(struct ibv_mr *, ibv_reg_mr_ex, (struct ibv_pd *pd, struct ibv_mr_init_attr *attr), (pd, attr))
LOGGED(struct ibv_mr *, ibv_reg_dmabuf_mr, (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
	(pd, offset, length, iova, fd, access))
LOGGED(struct ibv_mr *, ibv_reg_buf_mr, (struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access),
	(pd, buf, addr, length, access))
LOGGED(int, ibv_rereg_mr, (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
	(mr, flags, pd, addr, length, access))
LOGGED(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr))
LOGGED(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *context), (context))
LOGGED(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel))
LOGGED(int, ibv_get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context), (channel, cq, cq_context))
LOGGED_VOID(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int n), (cq, n))
LOGGED(struct ibv_cq *, ibv_create_cq, (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
	int vector), (context, cqe, cq_context, channel, vector))
LOGGED(int, ibv_resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe))
LOGGED(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq))
LOGGED(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr))
LOGGED(int, ibv_modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask))
LOGGED(int, ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr))
LOGGED(int, ibv_destroy_srq, (struct ibv_srq *srq), (srq))
LOGGED(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr))
LOGGED(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask))
LOGGED(int, ibv_query_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init), (qp, attr, mask, init))
LOGGED(int, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags))
LOGGED(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp))
LOGGED(int, ibv_set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))
LOGGED(int, ibv_query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))
LOGGED(int, ibv_attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
LOGGED(int, ibv_detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
LOGGED(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr))
LOGGED(struct ibv_ah *, ibv_create_ah_from_wc, (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port),
	(pd, wc, grh, port))
LOGGED(int, ibv_init_ah_from_wc, (struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
	struct ibv_ah_attr *attr), (context, port, wc, grh, attr))
LOGGED(int, ibv_destroy_ah, (struct ibv_ah *ah), (ah))
