/* SPDX-License-Identifier: Apache-2.0 */

/* A receive is posted to a queue pair that was destroyed. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(PAGE);
	struct ibv_sge sge = { (uintptr_t)to->addr, 64, to->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_qp *qp = p.b->qp;

	if (!MISTAKE)
		CHECK(!ibv_post_recv(qp, &wr, &bad));
	CHECK(!ibv_destroy_qp(qp));
	p.b->qp = NULL;
	if (MISTAKE)
		ibv_post_recv(qp, &wr, &bad);
	return finish();
}
