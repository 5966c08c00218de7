/* SPDX-License-Identifier: Apache-2.0 */

/* The connection manager's part of calls.h. */
CALL(int, cm_create_channel, (uint64_t *channel, int *fd))
CALL(int, cm_destroy_channel, (uint64_t channel))
CALL(int, cm_next, (uint64_t channel, struct rj_cm_event *event)) /* 1: there was one, which its owner has counted */
CALL(int, cm_create_id, (uint64_t channel, struct rj_cm_id *id, int ps, uint64_t *handle))
CALL(int, cm_adopt, (struct rj_cm_id *id)) /* gives the id of a request its struct */
CALL(int, cm_destroy_id, (uint64_t id))
CALL(int, cm_migrate, (uint64_t id, uint64_t channel))
CALL(int, cm_bind, (uint64_t id, struct sockaddr *addr))
CALL(int, cm_resolve_addr, (uint64_t id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms))
CALL(int, cm_resolve_route, (uint64_t id, int timeout_ms))
CALL(int, cm_listen, (uint64_t id, int backlog))
CALL(int, cm_connect, (uint64_t id, struct rdma_conn_param *param))
CALL(int, cm_accept, (uint64_t id, struct rdma_conn_param *param))
CALL(int, cm_reject, (uint64_t id, void *data, int length))
CALL(int, cm_establish, (uint64_t id))
CALL(int, cm_notify, (uint64_t id, int event))
CALL(int, cm_disconnect, (uint64_t id))
CALL(int, cm_join, (uint64_t id, struct sockaddr *group, int send_only))
CALL(int, cm_leave, (uint64_t id, struct sockaddr *group))
CALL(int, cm_set_option, (uint64_t id, int level, int name, void *value, size_t length))
CALL(int, cm_init_qp_attr, (uint64_t id, struct ibv_qp_attr *attr, int *mask))
CALL(int, cm_set_qp_type, (uint64_t id, int type)) /* of the queue pairs that it connects, and its requests */
CALL(int, cm_create_qp, (uint64_t id, uint64_t pd, uint64_t xrcd, struct ibv_qp_init_attr_ex *attr, struct rj_qp *qp))
CALL(int, cm_write_event, (uint64_t id, int type, int status, uint64_t arg))
CALL(int, cm_describe, (uint64_t id, struct rj_cm_id *out, char *device)) /* addresses; the device's name, or "" */
