/* SPDX-License-Identifier: Apache-2.0 */

/* The program waits for an event of a completion queue that it has not armed. */

#include "suite.h"

static struct pair p;
static struct ibv_mr *from, *to;

static void send_another(void *arg)
{
	(void)arg;
	CHECK(!ibv_req_notify_cq(p.b->cq, 0));
	post_send(p.a, from, 0, 64, SIGNALED);
}

int main(void)
{
	struct ibv_cq *cq;
	void *arg;

	p = pair(.events = 1);
	from = region(PAGE);
	to = region(PAGE);
	post_receive(p.b, to, 0, 64);
	post_receive(p.b, to, 64, 64);
	if (!MISTAKE)
		CHECK(!ibv_req_notify_cq(p.b->cq, 0));
	post_send(p.a, from, 0, 64, SIGNALED);
	if (MISTAKE)
		rescue(send_another, NULL);
	CHECK(!ibv_get_cq_event(p.b->channel, &cq, &arg));
	ibv_ack_cq_events(cq, 1);
	done(p.b);
	done(p.a);
	if (MISTAKE) {
		done(p.b);
		done(p.a);
	}
	return finish();
}
