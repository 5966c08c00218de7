/* SPDX-License-Identifier: Apache-2.0 */

/* Inline data through ibv_wr_set_inline_data, of more bytes than were asked for. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.inline_size = 16, .send_ops = IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.a->qp);
	struct ibv_mr *to = region(PAGE);
	char data[32] = "data";

	ibv_wr_start(qp);
	qp->wr_flags = SIGNALED;
	ibv_wr_rdma_write(qp, to->rkey, (uintptr_t)to->addr);
	ibv_wr_set_inline_data(qp, data, MISTAKE ? 32 : 16);
	if (!ibv_wr_complete(qp))
		done(p.a);
	return finish();
}
