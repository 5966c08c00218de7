/* SPDX-License-Identifier: Apache-2.0 */

/* A shared receive queue with receives for one of two messages, or for both. */

#include "suite.h"

int main(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct pair p;
	struct ibv_mr *from, *to;
	int i;

	open_device();
	CHECK((srq = ibv_create_srq(pd, &attr)));
	p = pair(.srq = srq);
	from = region(PAGE);
	to = region(2 * PAGE);
	post_srq(srq, to, 0, PAGE);
	if (!MISTAKE)
		post_srq(srq, to, PAGE, PAGE);
	for (i = 0; i < 2; i++)
		post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	if (MISTAKE) {
		move(p.b, p.b, 300);
		post_srq(srq, to, PAGE, PAGE);
	}
	done(p.a);
	done(p.b);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_srq(srq));
	return finish();
}
