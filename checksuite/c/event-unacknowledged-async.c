/* SPDX-License-Identifier: Apache-2.0 */

/* The event that a shared receive queue runs low is taken, and acknowledged, or not. */

#include "suite.h"

static struct ibv_async_event event;

static void acknowledge(void *arg)
{
	(void)arg;
	ibv_ack_async_event(&event);
}

int main(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_srq *srq;
	struct pair p;
	struct ibv_mr *from, *to;
	int i;

	open_device();
	CHECK((srq = ibv_create_srq(pd, &attr)));
	p = pair(.srq = srq);
	from = region(PAGE);
	to = region(PAGE);
	for (i = 0; i < 2; i++)
		post_srq(srq, to, i * 64, 64);
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	do {
		CHECK(!ibv_get_async_event(context, &event));
		if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED)
			ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
	if (MISTAKE)
		rescue(acknowledge, NULL);
	else
		acknowledge(NULL);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_srq(srq));
	return finish();
}
