/* SPDX-License-Identifier: Apache-2.0 */

/* The queue pair is in the error state. Its receives have their buffers until their flush was polled. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(PAGE);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	post_receive(p.b, to, 0, PAGE);
	CHECK(!ibv_modify_qp(p.b->qp, &attr, IBV_QP_STATE));
	if (MISTAKE)
		deregister(to);
	CHECK(next(p.b).status == IBV_WC_WR_FLUSH_ERR);
	if (!MISTAKE)
		deregister(to);
	return finish();
}
