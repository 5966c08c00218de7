/* SPDX-License-Identifier: Apache-2.0 */

/* Two WRITEs, and one completion read between ibv_start_poll and ibv_end_poll. The first buffer may change there. */

#include "suite.h"

int main(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64 };
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_cq_ex *cq;
	struct pair p;
	struct ibv_mr *from, *to;
	int i, ret;

	open_device();
	CHECK((cq = ibv_create_cq_ex(context, &attr)));
	p = pair(.cq = ibv_cq_ex_to_cq(cq));
	from = region(2 * PAGE);
	to = region(2 * PAGE);
	for (i = 0; i < 2; i++)
		post_write(p.a, from, i * PAGE, PAGE, to, i * PAGE, SIGNALED);
	while ((ret = ibv_start_poll(cq, &poll)) == ENOENT)
		;
	CHECK(!ret && cq->status == IBV_WC_SUCCESS);
	memset((char *)from->addr + (MISTAKE ? PAGE : 0), 'x', 64);
	ibv_end_poll(cq);
	done(p.a);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	return finish();
}
