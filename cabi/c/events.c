/* SPDX-License-Identifier: Apache-2.0 */

/* Asynchronous events, and the acknowledgements that destroying an object waits for. */

#include "ramjet.h"

#include <time.h>
#include <unistd.h>

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t one;

	if (!event || rj_inside)
		return rj_failed(event ? EDEADLK : EINVAL);
	do {
		if (read(context->async_fd, &one, sizeof one) != sizeof one)
			return -1;
	} while (ASK(next_async(rj_context(context)->handle, event)) != 1);
	return 0;
}

static void done(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *count, uint32_t n)
{
	pthread_mutex_lock(mutex);
	*count += n;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *q = event->element.cq;
		done(&q->mutex, &q->cond, &q->async_events_completed, 1);
		break;
	}
	case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_PATH_MIG: case IBV_EVENT_PATH_MIG_ERR: case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *q = event->element.qp;
		done(&q->mutex, &q->cond, &q->events_completed, 1);
		break;
	}
	case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *q = event->element.srq;
		done(&q->mutex, &q->cond, &q->events_completed, 1);
		break;
	}
	default:
		break;
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *q, unsigned int n)
{
	done(&q->mutex, &q->cond, &q->comp_events_completed, n);
}

/* How long another thread may take to acknowledge an event until the checker reports that none will, in seconds. */
#define PATIENCE 3

/* rj_wait_events waits until the program has acknowledged all events of an object. If no thread does so for long, the
 * checker reports that, and the wait ends: otherwise the program would hang. */
EXPORT void rj_wait_events(void *object, pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t *reported)
{
	const struct rj_calls *r = rj_check_on ? rj() : NULL;
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	pthread_mutex_lock(mutex);
	while (*completed != __atomic_load_n(reported, __ATOMIC_SEQ_CST) && !err)
		err = r ? pthread_cond_timedwait(cond, mutex, &until) : pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
	if (err && r && !rj_inside)
		INSIDE(r->check_unacknowledged(object));
}
