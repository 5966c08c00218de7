/* SPDX-License-Identifier: Apache-2.0 */

/* WRITEs through ibv_wr_rdma_write: one was signaled, and then none any more. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.send_ops = IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.a->qp);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned i, n;

	CHECK(!ibv_query_qp(p.a->qp, &attr, IBV_QP_CAP, &init));
	n = init.cap.max_send_wr;
	for (i = 0; i <= n; i++) {
		int signaled = i == 0 || (!MISTAKE && i % (n / 2) == 0);

		ibv_wr_start(qp);
		qp->wr_flags = signaled ? SIGNALED : 0;
		ibv_wr_rdma_write(qp, to->rkey, (uintptr_t)to->addr);
		ibv_wr_set_sge(qp, from->lkey, (uintptr_t)from->addr, 64);
		CHECK(!ibv_wr_complete(qp));
		if (signaled)
			done(p.a);
	}
	return finish();
}
