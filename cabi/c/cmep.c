/* SPDX-License-Identifier: Apache-2.0 */

/* Endpoints: ids with their queues, and the requests that arrive at them. */

#include "cm.h"

#include <rdma/rdma_verbs.h>

EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	struct rj_cm_id *i;
	int err;

	if (rdma_create_id(NULL, &id, NULL, res->ai_port_space))
		return -1;
	i = rj_cm_id(id);
	id->qp_type = res->ai_qp_type;
	if (res->ai_port_space == RDMA_PS_IB && (errno = TRY(cm_set_qp_type(i->handle, res->ai_qp_type))))
		goto fail;
	if (res->ai_flags & RAI_PASSIVE) {
		if (rdma_bind_addr(id, res->ai_src_addr))
			goto fail;
		i->requests_pd = pd;
		if (attr) {
			i->requests_qp = malloc(sizeof *attr);
			if (!i->requests_qp)
				goto fail;
			*i->requests_qp = *attr;
			i->requests_qp->qp_type = res->ai_qp_type;
		}
		*out = id;
		return 0;
	}
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, 2000) || rdma_resolve_route(id, 2000))
		goto fail;
	if (attr) {
		attr->qp_type = res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr))
			goto fail;
	}
	*out = id;
	return 0;
fail:
	err = errno;
	rdma_destroy_ep(id);
	errno = err;
	return -1;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct rj_cm_id *l = rj_cm_id(listen);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr attr;
	int err;

	if (!l->sync)
		return rj_failed(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->status || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		err = event->status < 0 ? -event->status : event->status ? event->status : EINVAL;
		rdma_ack_cm_event(event);
		return rj_failed(err);
	}
	id = event->id;
	if (l->requests_qp) {
		attr = *l->requests_qp;
		err = rdma_create_qp(id, l->requests_pd, &attr);
	} else {
		err = 0;
	}
	if (!err)
		err = rdma_migrate_id(id, NULL);
	if (err) {
		err = errno;
		rdma_ack_cm_event(event);
		rdma_reject(id, NULL, 0);
		rdma_destroy_ep(id);
		return rj_failed(err);
	}
	id->event = event; /* kept until the next one: programs read its private data */
	*out = id;
	return 0;
}
