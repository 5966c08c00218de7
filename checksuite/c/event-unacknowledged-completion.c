/* SPDX-License-Identifier: Apache-2.0 */

/* A completion event is taken and never acknowledged, so that the completion queue could never be destroyed. */

#include "suite.h"

static void acknowledge(void *cq)
{
	ibv_ack_cq_events(cq, 1);
}

int main(void)
{
	struct pair p = pair(.events = 1);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_cq *cq;
	void *arg;

	post_receive(p.b, to, 0, PAGE);
	CHECK(!ibv_req_notify_cq(p.b->cq, 0));
	post_send(p.a, from, 0, 64, SIGNALED);
	CHECK(!ibv_get_cq_event(p.b->channel, &cq, &arg));
	done(p.a);
	done(p.b);
	if (MISTAKE)
		rescue(acknowledge, cq);
	else
		acknowledge(cq);
	return finish();
}
