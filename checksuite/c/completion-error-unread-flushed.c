/* SPDX-License-Identifier: Apache-2.0 */

/* Sends are flushed by the error state, and the program does not learn which were not done. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int i;

	CHECK(!ibv_modify_qp(p.a->qp, &attr, IBV_QP_STATE));
	for (i = 0; i < 3; i++)
		post_write(p.a, from, 0, 64, to, 0, SIGNALED);
	for (i = 0; i < (MISTAKE ? 1 : 3); i++)
		CHECK(next(p.a).status == IBV_WC_WR_FLUSH_ERR);
	return finish();
}
