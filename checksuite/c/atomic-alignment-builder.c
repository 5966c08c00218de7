/* SPDX-License-Identifier: Apache-2.0 */

/* A lock behind a head of 12 bytes, or of 16, is taken by ibv_wr_atomic_cmp_swp. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.send_ops = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.a->qp);
	struct ibv_mr *result = region(PAGE), *record = region(PAGE);
	int head = MISTAKE ? 12 : 16;

	ibv_wr_start(qp);
	qp->wr_flags = SIGNALED;
	ibv_wr_atomic_cmp_swp(qp, record->rkey, (uintptr_t)record->addr + head, 0, 1);
	ibv_wr_set_sge(qp, result->lkey, (uintptr_t)result->addr, 8);
	CHECK(!ibv_wr_complete(qp));
	next(p.a);
	return finish();
}
