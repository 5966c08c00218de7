/* SPDX-License-Identifier: Apache-2.0 */

/* A completion queue is polled a last time, after it was destroyed, or before that. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_cq *cq = p.a->cq;
	struct ibv_wc wc;

	CHECK(!ibv_destroy_qp(p.a->qp));
	p.a->qp = NULL;
	if (!MISTAKE)
		CHECK(!ibv_poll_cq(cq, 1, &wc));
	CHECK(!ibv_destroy_cq(cq));
	p.a->cq = NULL;
	if (MISTAKE)
		ibv_poll_cq(cq, 1, &wc);
	return finish();
}
