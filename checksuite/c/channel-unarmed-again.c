/* SPDX-License-Identifier: Apache-2.0 */

/* A completion queue gives one event for each time that it was armed. The program waits a second time. */

#include "suite.h"

static struct pair p;
static struct ibv_mr *from, *to;

static void arm_and_send(void *arg)
{
	(void)arg;
	CHECK(!ibv_req_notify_cq(p.b->cq, 0));
	post_send(p.a, from, 0, 64, SIGNALED);
}

static void take_event(void)
{
	struct ibv_cq *cq;
	void *arg;

	CHECK(!ibv_get_cq_event(p.b->channel, &cq, &arg));
	ibv_ack_cq_events(cq, 1);
}

int main(void)
{
	int i;

	p = pair(.events = 1);
	from = region(PAGE);
	to = region(PAGE);
	for (i = 0; i < 3; i++)
		post_receive(p.b, to, i * 64, 64);
	arm_and_send(NULL);
	take_event();
	done(p.b);
	if (MISTAKE) {
		post_send(p.a, from, 0, 64, SIGNALED);
		rescue(arm_and_send, NULL);
	} else {
		arm_and_send(NULL);
	}
	take_event();
	done(p.b);
	for (i = 0; i < 2 + MISTAKE; i++)
		done(p.a);
	if (MISTAKE)
		done(p.b);
	return finish();
}
