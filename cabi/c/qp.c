/* SPDX-License-Identifier: Apache-2.0 */

/* Queue pairs. */

#include "ramjet.h"

/* rj_create_cm_qp creates a queue pair for an id of the connection manager, or, with id 0, one
 * of the program's own. */
EXPORT struct ibv_qp *rj_create_cm_qp(struct ibv_context *context, uint64_t id, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	struct ibv_xrcd *xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	struct rj_qp *q;
	int err;

	if (attr->comp_mask & ~known)
		return rj_fail(NULL, EOPNOTSUPP);
	if (pd && !rj_pd_handle(pd))
		return rj_fail(NULL, ENOENT);
	q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	pthread_mutex_init(&q->qp.qp_base.mutex, NULL);
	pthread_cond_init(&q->qp.qp_base.cond, NULL);
	q->qp.qp_base.context = context;
	q->qp.qp_base.qp_context = attr->qp_context;
	q->qp.qp_base.pd = pd;
	q->qp.qp_base.send_cq = attr->send_cq;
	q->qp.qp_base.recv_cq = attr->recv_cq;
	q->qp.qp_base.srq = attr->srq;
	q->qp.qp_base.qp_type = attr->qp_type;
	q->qp.qp_base.state = IBV_QPS_RESET;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		err = rj_fill_qp(q, attr->send_ops_flags);
		if (err)
			return rj_fail(q, err);
	}
	if (id)
		err = TRY(cm_create_qp(id, pd ? rj_pd_handle(pd) : 0, xrcd ? HIDDEN_HANDLE(rj_xrcd, xrcd) : 0, attr, q));
	else
		err = TRY(create_qp(pd ? rj_pd_handle(pd) : 0, xrcd ? HIDDEN_HANDLE(rj_xrcd, xrcd) : 0, attr, q));
	if (err) {
		rj_free_builder(q);
		return rj_fail(q, err);
	}
	q->qp.qp_base.handle = (uint32_t)q->handle;
	return &q->qp.qp_base;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return rj_create_cm_qp(context, 0, attr);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
	struct ibv_qp *qp;

	memcpy(&ex, attr, sizeof *attr);
	ex.comp_mask = IBV_QP_INIT_ATTR_PD; /* overlaps the padding of the shorter struct */
	qp = create_qp_ex(pd->context, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return TRY(modify_qp((struct rj_qp *)qp, attr, mask));
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)mask; /* all attributes are always filled in */
	return TRY(query_qp((struct rj_qp *)qp, attr, init));
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct rj_qp *q = (struct rj_qp *)qp;
	int err = TRY(destroy_qp(HANDLE(rj_qp, qp)));

	if (err)
		return err;
	rj_wait_events(qp, &qp->mutex, &qp->cond, &qp->events_completed, &q->async_events_reported);
	rj_free_builder(q);
	rj_discard(q);
	return 0;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return ((struct rj_qp *)qp)->builder ? (struct ibv_qp_ex *)qp : NULL;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return TRY(attach_mcast(HANDLE(rj_qp, qp), (uint8_t *)gid->raw, lid));
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return TRY(detach_mcast(HANDLE(rj_qp, qp), (uint8_t *)gid->raw, lid));
}

void rj_qp_ops(struct rj_context *c) { c->v.create_qp_ex = create_qp_ex; }
