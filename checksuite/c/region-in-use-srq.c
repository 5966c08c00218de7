/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A shared receive queue keeps the receives that are posted when its queue pairs are gone: the region goes after
 * it.
 */

#include "suite.h"

int main(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct pair p;
	struct ibv_mr *to;

	open_device();
	CHECK((srq = ibv_create_srq(pd, &attr)));
	p = pair(.srq = srq);
	to = small_region(256);
	post_srq(srq, to, 0, 256);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	if (MISTAKE)
		deregister(to);
	CHECK(!ibv_destroy_srq(srq));
	if (!MISTAKE)
		deregister(to);
	return finish();
}
