/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A SEND through ibv_wr_send. ibv_wr_complete posts, and does not complete it: the buffer may change only after
 * the poll.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.send_ops = IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.a->qp);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	post_receive(p.b, to, 0, PAGE);
	memset(from->addr, 1, 256);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, from->lkey, (uintptr_t)from->addr, 256);
	CHECK(!ibv_wr_complete(qp));
	if (MISTAKE)
		memset(from->addr, 2, 256);
	done(p.a);
	if (!MISTAKE)
		memset(from->addr, 2, 256);
	done(p.b);
	return finish();
}
