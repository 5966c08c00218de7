/* SPDX-License-Identifier: Apache-2.0 */

/* Completion channels and completion queues. */

#include "ramjet.h"

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

static struct rj_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
			       int vector, int timed)
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
	err = TRY(create_cq(rj_context(context)->handle, cqe, channel ? HIDDEN_HANDLE(rj_channel, channel) : 0, timed, q));
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
	return (struct ibv_cq *)create_cq(context, cqe, cq_context, channel, vector, 0);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t times = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	const uint64_t fields = IBV_WC_STANDARD_FLAGS | times;
	struct rj_cq *q;

	if (attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) || attr->wc_flags & ~fields)
		return rj_fail(NULL, EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return rj_fail(NULL, EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!attr->parent_domain || !((struct rj_pd *)attr->parent_domain)->parent))
		return rj_fail(NULL, EINVAL);
	if (attr->cqe > INT32_MAX)
		return rj_fail(NULL, EINVAL);
	q = create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector,
		      (attr->wc_flags & times) != 0);
	if (!q)
		return NULL;
	rj_fill_cq(q, attr->wc_flags);
	rj_log_cq(&q->cq);
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
	rj_wait_events(cq, &cq->mutex, &cq->cond, &cq->comp_events_completed, &q->comp_events_reported);
	rj_wait_events(cq, &cq->mutex, &cq->cond, &cq->async_events_completed, &q->async_events_reported);
	if (channel) {
		pthread_mutex_lock(&cq->context->mutex);
		channel->refcnt--;
		pthread_mutex_unlock(&cq->context->mutex);
	}
	rj_discard(q);
	return 0;
}

void rj_cq_ops(struct rj_context *c) { c->v.create_cq_ex = create_cq_ex; }
