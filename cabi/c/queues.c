/* SPDX-License-Identifier: Apache-2.0 */

/* Completion channels and queues, shared receive queues, queue pairs, XRC domains. */

#include "ramjet.h"

#include <time.h>
#include <unistd.h>

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct rj_channel *c = calloc(1, sizeof *c);
	int err;

	if (!c)
		return NULL;
	err = TRY(create_channel(rj_context(context)->handle, &c->handle, &c->channel.fd));
	if (err)
		return rj_fail(c, err);
	c->channel.context = context;
	return &c->channel;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return rj_gone(TRY(destroy_channel(HIDDEN_HANDLE(rj_channel, channel))), channel);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **cq_context)
{
	const struct rj_calls *r = rj();
	struct rj_cq *q;
	uint64_t one;

	if (!r)
		return -1;
	do {
		if (read(channel->fd, &one, sizeof one) != sizeof one)
			return -1;
	} while (!(q = r->next_completion(HIDDEN_HANDLE(rj_channel, channel))));
	*out = (struct ibv_cq *)q;
	*cq_context = q->cq.cq_context;
	return 0;
}

static struct rj_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			       int vector)
{
	struct rj_cq *q;
	int err;

	if (vector < 0 || vector >= context->num_comp_vectors)
		return rj_fail(NULL, EINVAL);
	q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	pthread_mutex_init(&q->cq.mutex, NULL);
	pthread_cond_init(&q->cq.cond, NULL);
	pthread_mutex_init(&q->polling, NULL);
	q->cq.context = context;
	q->cq.channel = channel;
	q->cq.cq_context = cq_context;
	err = TRY(create_cq(rj_context(context)->handle, cqe, channel ? HIDDEN_HANDLE(rj_channel, channel) : 0, q));
	if (err)
		return rj_fail(q, err);
	q->cq.handle = (uint32_t)q->handle;
	if (channel) {
		pthread_mutex_lock(&context->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&context->mutex);
	}
	return q;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
				    int vector)
{
	return (struct ibv_cq *)create_cq(context, cqe, cq_context, channel, vector);
}

struct ibv_cq_ex *rj_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t fields = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	struct rj_cq *q;

	if (attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) || attr->wc_flags & ~fields)
		return rj_fail(NULL, EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return rj_fail(NULL, EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!attr->parent_domain || !((struct rj_pd *)attr->parent_domain)->parent))
		return rj_fail(NULL, EINVAL);
	if (attr->cqe > INT32_MAX)
		return rj_fail(NULL, EINVAL);
	q = create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector);
	if (!q)
		return NULL;
	rj_fill_cq(q, attr->wc_flags);
	return &q->cq;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe) { return TRY(resize_cq((struct rj_cq *)cq, cqe)); }

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct rj_cq *q = (struct rj_cq *)cq;
	struct ibv_comp_channel *channel = cq->channel;
	int err = TRY(destroy_cq(HANDLE(rj_cq, cq)));

	if (err)
		return err;
	rj_wait_events(&cq->mutex, &cq->cond, &cq->comp_events_completed, &q->comp_events_reported);
	rj_wait_events(&cq->mutex, &cq->cond, &cq->async_events_completed, &q->async_events_reported);
	if (channel) {
		pthread_mutex_lock(&cq->context->mutex);
		channel->refcnt--;
		pthread_mutex_unlock(&cq->context->mutex);
	}
	free(q);
	return 0;
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

struct ibv_srq *rj_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
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
	rj_wait_events(&srq->mutex, &srq->cond, &srq->events_completed, &s->async_events_reported);
	free(s);
	return 0;
}

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

struct ibv_qp *rj_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return rj_create_cm_qp(context, 0, attr);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
	struct ibv_qp *qp;

	memcpy(&ex, attr, sizeof *attr);
	ex.comp_mask = IBV_QP_INIT_ATTR_PD; /* lies in what pads the shorter struct */
	qp = rj_create_qp_ex(pd->context, &ex);
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
	(void)mask; /* all of them are at hand */
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
	rj_wait_events(&qp->mutex, &qp->cond, &qp->events_completed, &q->async_events_reported);
	rj_free_builder(q);
	free(q);
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

static int get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = ((struct rj_srq *)srq)->num;
	return *num ? 0 : rj_errno(EOPNOTSUPP);
}

/* The hot calls: one crossing each, however long the list. */

int rj_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return TRY(post_send(HANDLE(rj_qp, qp), wr, bad));
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return TRY(post_recv(HANDLE(rj_qp, qp), wr, bad));
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return TRY(post_srq_recv(HANDLE(rj_srq, srq), wr, bad));
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	const struct rj_calls *r = rj();

	return r ? r->poll(HANDLE(rj_cq, cq), room, wc) : -1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return TRY(req_notify(HANDLE(rj_cq, cq), solicited_only));
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a;
	int err;

	if (input && input->comp_mask)
		return rj_errno(EINVAL);
	err = TRY(query_device(rj_context(context)->handle, &a));
	if (err)
		return err;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr a;
	int err = TRY(query_port(rj_context(context)->handle, port, &a));

	if (err)
		return err;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;

	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		uint64_t now = rj() ? rj()->clock(rj_context(context)->handle) : 0;

		values->raw_clock = (struct timespec){ .tv_sec = now / 1000000000, .tv_nsec = now % 1000000000 };
		values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	}
	return 0;
}

void rj_fill_context(struct rj_context *c)
{
	struct ibv_context_ops *o = &c->v.context.ops;

	o->alloc_mw = rj_alloc_mw;
	o->bind_mw = rj_bind_mw;
	o->dealloc_mw = rj_dealloc_mw;
	o->poll_cq = poll_cq;
	o->req_notify_cq = req_notify_cq;
	o->post_srq_recv = post_srq_recv;
	o->post_send = rj_post_send;
	o->post_recv = post_recv;

	c->v.query_port = query_port;
	c->v.advise_mr = rj_advise_mr;
	c->v.query_device_ex = query_device_ex;
	c->v.query_rt_values = query_rt_values;
	c->v.create_cq_ex = rj_create_cq_ex;
	c->v.create_qp_ex = rj_create_qp_ex;
	c->v.create_srq_ex = rj_create_srq_ex;
	c->v.get_srq_num = get_srq_num;
	c->v.open_xrcd = open_xrcd;
	c->v.close_xrcd = close_xrcd;
	c->v.alloc_td = rj_alloc_td;
	c->v.dealloc_td = rj_dealloc_td;
	c->v.alloc_parent_domain = rj_alloc_parent_domain;
}
