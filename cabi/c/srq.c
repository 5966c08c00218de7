/* SPDX-License-Identifier: Apache-2.0 */

/* Shared receive queues and XRC domains. */

#include "ramjet.h"

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t need = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct rj_xrcd *x;
	int err;

	if (attr->comp_mask != need)
		return rj_fail(NULL, EINVAL);
	x = calloc(1, sizeof *x);
	if (!x)
		return NULL;
	err = TRY(open_xrcd(rj_context(context)->handle, attr->fd, attr->oflags, &x->handle));
	if (err)
		return rj_fail(x, err);
	x->xrcd.context = context;
	return &x->xrcd;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	return rj_gone(TRY(close_xrcd(HIDDEN_HANDLE(rj_xrcd, xrcd))), xrcd);
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr, uint64_t xrcd, uint64_t cq)
{
	struct rj_srq *s = calloc(1, sizeof *s);
	int err;

	if (!s)
		return NULL;
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	s->srq.context = pd->context;
	s->srq.srq_context = srq_context;
	s->srq.pd = pd;
	err = TRY(create_srq(rj_pd_handle(pd), attr, xrcd, cq, s));
	if (err)
		return rj_fail(s, err);
	s->srq.handle = (uint32_t)s->handle;
	return &s->srq;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create_srq(pd, attr->srq_context, &attr->attr, 0, 0);
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t need = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TYPE;

	(void)context;
	if (attr->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_TM))
		return rj_fail(NULL, EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return rj_fail(NULL, EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC)
		return create_srq(attr->pd, attr->srq_context, &attr->attr, 0, 0);
	if ((attr->comp_mask & need) != need || attr->srq_type != IBV_SRQT_XRC || !attr->xrcd || !attr->cq)
		return rj_fail(NULL, EINVAL);
	return create_srq(attr->pd, attr->srq_context, &attr->attr, HIDDEN_HANDLE(rj_xrcd, attr->xrcd), HANDLE(rj_cq, attr->cq));
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return TRY(modify_srq(HANDLE(rj_srq, srq), attr, mask));
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return TRY(query_srq(HANDLE(rj_srq, srq), attr));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct rj_srq *s = (struct rj_srq *)srq;
	int err = TRY(destroy_srq(HANDLE(rj_srq, srq)));

	if (err)
		return err;
	rj_wait_events(srq, &srq->mutex, &srq->cond, &srq->events_completed, &s->async_events_reported);
	rj_discard(s);
	return 0;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = ((struct rj_srq *)srq)->num;
	return *num ? 0 : rj_errno(EOPNOTSUPP);
}

void rj_srq_ops(struct rj_context *c)
{
	c->v.open_xrcd = open_xrcd;
	c->v.close_xrcd = close_xrcd;
	c->v.create_srq_ex = create_srq_ex;
	c->v.get_srq_num = get_srq_num;
}
