/* SPDX-License-Identifier: Apache-2.0 */

/* The functions of libibverbs that `ramjet run --log` logs: LOGGED(result, name, (parameters), (arguments)), and
 * LOGGED_VOID without the result. log.c has the functions that programs call, which log the call and make it; the
 * functions themselves are called rj_do_NAME in the libraries. The table of internal/core/calllog describes the arguments. */
struct ibv_mr_init_attr; /* of newer headers, see recent.c */
struct ibv_buf;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
struct ib_user_path_rec;

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

/* Functions that name or convert something. */
LOGGED(const char *, ibv_get_device_name, (struct ibv_device *device), (device))
LOGGED(int, ibv_get_device_index, (struct ibv_device *device), (device))
LOGGED(__be64, ibv_get_device_guid, (struct ibv_device *device), (device))
LOGGED(const char *, ibv_node_type_str, (enum ibv_node_type type), (type))
LOGGED(const char *, ibv_port_state_str, (enum ibv_port_state state), (state))
LOGGED(const char *, ibv_event_type_str, (enum ibv_event_type event), (event))
LOGGED(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status))
LOGGED(int, ibv_rate_to_mult, (enum ibv_rate rate), (rate))
LOGGED(enum ibv_rate, mult_to_ibv_rate, (int mult), (mult))
LOGGED(int, ibv_rate_to_mbps, (enum ibv_rate rate), (rate))
LOGGED(enum ibv_rate, mbps_to_ibv_rate, (int mbps), (mbps))
LOGGED_VOID(ibv_copy_ah_attr_from_kern, (struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from), (to, from))
LOGGED_VOID(ibv_copy_qp_attr_from_kern, (struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from), (to, from))
LOGGED_VOID(ibv_copy_path_rec_from_kern, (struct ibv_sa_path_rec *to, struct ib_user_path_rec *from), (to, from))
LOGGED_VOID(ibv_copy_path_rec_to_kern, (struct ib_user_path_rec *to, struct ibv_sa_path_rec *from), (to, from))
LOGGED(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp))
LOGGED_NONE(const char *, ibv_get_sysfs_path)
LOGGED(int, ibv_read_sysfs_file, (const char *dir, const char *file, char *buf, size_t size), (dir, file, buf, size))

/* About fork, of which nothing is needed here. */
LOGGED_NONE(int, ibv_fork_init)
LOGGED_NONE(enum ibv_fork_status, ibv_is_fork_initialized)
LOGGED(int, ibv_dontfork_range, (void *base, size_t size), (base, size))
LOGGED(int, ibv_dofork_range, (void *base, size_t size), (base, size))

/* Memory from the library, and objects that no device here has. */
LOGGED(void *, ibv_alloc_buf, (struct ibv_pd *pd, size_t size, struct ibv_buf **buf), (pd, size, buf))
LOGGED_VOID(ibv_free_buf, (struct ibv_buf *buf), (buf))
LOGGED(struct ibv_dm *, ibv_import_dm, (struct ibv_context *context, uint32_t handle), (context, handle))
LOGGED_VOID(ibv_unimport_dm, (struct ibv_dm *dm), (dm))
LOGGED(int, ibv_dm_export_dmabuf_fd, (struct ibv_dm *dm), (dm))
LOGGED(int, ibv_export_buf_dmabuf_fd, (struct ibv_buf *buf), (buf))
LOGGED(struct ibv_dmah *, ibv_alloc_dmah, (struct ibv_context *context, struct ibv_dmah_init_attr *attr), (context, attr))
LOGGED(int, ibv_dealloc_dmah, (struct ibv_dmah *dmah), (dmah))
LOGGED(int, _ibv_query_comp_cntr_caps, (struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size),
	(context, caps, size))
LOGGED(struct ibv_comp_cntr *, ibv_create_comp_cntr, (struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr),
	(context, attr))
LOGGED(int, ibv_destroy_comp_cntr, (struct ibv_comp_cntr *counter), (counter))
LOGGED(int, ibv_set_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t value), (counter, value))
LOGGED(int, ibv_set_err_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t value), (counter, value))
LOGGED(int, ibv_inc_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t amount), (counter, amount))
LOGGED(int, ibv_inc_err_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t amount), (counter, amount))
LOGGED(int, ibv_read_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t *value), (counter, value))
LOGGED(int, ibv_read_err_comp_cntr, (struct ibv_comp_cntr *counter, uint64_t *value), (counter, value))
LOGGED(int, ibv_qp_attach_comp_cntr, (struct ibv_qp *qp, struct ibv_comp_cntr *counter, struct ibv_qp_attach_comp_cntr_attr *attr),
	(qp, counter, attr))
