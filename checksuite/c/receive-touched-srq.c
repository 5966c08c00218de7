/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A shared receive queue: the first receive has completed, and the program writes into its buffer, or the next
 * one's.
 */

#include "suite.h"

int main(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct pair p;
	struct ibv_mr *from, *to;

	open_device();
	CHECK((srq = ibv_create_srq(pd, &attr)));
	p = pair(.srq = srq);
	from = region(PAGE);
	to = region(2 * PAGE);
	post_srq(srq, to, 0, PAGE);
	post_srq(srq, to, PAGE, PAGE);
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	strcpy((char *)to->addr + (MISTAKE ? PAGE : 0), "mine");
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_srq(srq));
	return finish();
}
