/* SPDX-License-Identifier: Apache-2.0 */

/* READs through ibv_wr_rdma_read into two buffers: one completion, and both are cleared, or the first. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.send_ops = IBV_QP_EX_WITH_RDMA_READ);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.a->qp);
	struct ibv_mr *to = small_region(512), *from = region(PAGE);
	int i;

	ibv_wr_start(qp);
	for (i = 0; i < 2; i++) {
		qp->wr_id = i;
		qp->wr_flags = SIGNALED;
		ibv_wr_rdma_read(qp, from->rkey, (uintptr_t)from->addr + i * 256);
		ibv_wr_set_sge(qp, to->lkey, (uintptr_t)to->addr + i * 256, 256);
	}
	CHECK(!ibv_wr_complete(qp));
	CHECK(next(p.a).wr_id == 0);
	memset(to->addr, 'x', MISTAKE ? 512 : 256);
	done(p.a);
	return finish();
}
