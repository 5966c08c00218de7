/* SPDX-License-Identifier: Apache-2.0 */

/* Binding, resolving, connecting, and options. */

#include "cm.h"

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int err = TRY(cm_bind(rj_cm_id(id)->handle, addr));

	return rj_failed(err ? err : rj_cm_describe(rj_cm_id(id)));
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	int err = TRY(cm_resolve_addr(rj_cm_id(id)->handle, src, dst, timeout_ms));

	return rj_cm_called(rj_cm_id(id), err);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return rj_cm_called(rj_cm_id(id), TRY(cm_resolve_route(rj_cm_id(id)->handle, timeout_ms)));
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	int err = TRY(cm_listen(rj_cm_id(id)->handle, backlog));

	return rj_failed(err ? err : rj_cm_describe(rj_cm_id(id)));
}

static int datagrams(struct rdma_cm_id *id) { return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB; }

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return rj_cm_called(rj_cm_id(id), TRY(cm_connect(rj_cm_id(id)->handle, param)));
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int err = TRY(cm_accept(rj_cm_id(id)->handle, param));

	if (err || datagrams(id))
		return rj_failed(err);
	return rj_cm_complete(rj_cm_id(id));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return rj_failed(TRY(cm_reject(rj_cm_id(id)->handle, (void *)data, length)));
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	(void)id, (void)data, (void)length;
	return rj_failed(EOPNOTSUPP);
}

EXPORT int rdma_establish(struct rdma_cm_id *id) { return rj_failed(TRY(cm_establish(rj_cm_id(id)->handle))); }

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return rj_failed(TRY(cm_notify(rj_cm_id(id)->handle, event)));
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	return rj_cm_called(rj_cm_id(id), TRY(cm_disconnect(rj_cm_id(id)->handle)));
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece) { (void)id, (void)ece; return rj_failed(EOPNOTSUPP); }
EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece) { (void)id, (void)ece; return rj_failed(EOPNOTSUPP); }

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	return rj_failed(TRY(cm_set_option(rj_cm_id(id)->handle, level, name, value, length)));
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	return rj_failed(TRY(cm_init_qp_attr(rj_cm_id(id)->handle, attr, mask)));
}
