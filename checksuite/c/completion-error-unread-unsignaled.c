/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE beyond the bounds of its target. It is unsignaled, but errors complete nevertheless. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	post_write(p.a, from, 0, 64, to, PAGE - 32, 0);
	if (!MISTAKE)
		CHECK(next(p.a).status == IBV_WC_REM_ACCESS_ERR);
	else
		do {
			move(p.b, p.b, 10);
			CHECK(!ibv_query_qp(p.a->qp, &attr, IBV_QP_STATE, &init));
		} while (attr.qp_state != IBV_QPS_ERR);
	return finish();
}
