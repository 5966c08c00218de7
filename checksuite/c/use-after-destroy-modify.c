/* SPDX-License-Identifier: Apache-2.0 */

/* A cleanup moves a queue pair to the error state after its destruction. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = p.a->qp;

	if (!MISTAKE)
		CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	CHECK(!ibv_destroy_qp(qp));
	p.a->qp = NULL;
	if (MISTAKE)
		ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	return finish();
}
