/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A completion that came before the queue was armed gives no event. The right program polls after it has armed,
 * and waits only if there was nothing.
 */

#include "suite.h"

static struct pair p;
static struct ibv_mr *from, *to;

static void send_another(void *arg)
{
	(void)arg;
	post_send(p.a, from, 0, 64, SIGNALED);
}

int main(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *arg;
	int i, n = 0;

	p = pair(.events = 1);
	from = region(PAGE);
	to = region(PAGE);
	for (i = 0; i < 2; i++)
		post_receive(p.b, to, i * 64, 64);
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a); /* so it is there */
	CHECK(!ibv_req_notify_cq(p.b->cq, 0));
	if (!MISTAKE)
		n = ibv_poll_cq(p.b->cq, 1, &wc);
	if (!n) {
		if (MISTAKE)
			rescue(send_another, NULL);
		CHECK(!ibv_get_cq_event(p.b->channel, &cq, &arg));
		ibv_ack_cq_events(cq, 1);
		done(p.b);
	}
	if (MISTAKE) {
		done(p.b);
		done(p.a);
	}
	return finish();
}
