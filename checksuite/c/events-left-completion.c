/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A completion event is there when the program ends, as it found the completion by polling. The right one reads
 * it.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.events = 1);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_cq *cq;
	void *arg;

	post_receive(p.b, to, 0, PAGE);
	CHECK(!ibv_req_notify_cq(p.b->cq, 0));
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	if (MISTAKE)
		return 0;
	CHECK(!ibv_get_cq_event(p.b->channel, &cq, &arg));
	ibv_ack_cq_events(cq, 1);
	return finish();
}
