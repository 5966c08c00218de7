/* SPDX-License-Identifier: Apache-2.0 */

/*
 * As many unsignaled WRITEs as the queue holds: their places are never freed. The last of the right ones is
 * signaled.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned i, n;

	CHECK(!ibv_query_qp(p.a->qp, &attr, IBV_QP_CAP, &init));
	n = init.cap.max_send_wr;
	for (i = 1; i <= n; i++)
		post_write(p.a, from, 0, 64, to, 0, !MISTAKE && i == n ? SIGNALED : 0);
	if (!MISTAKE)
		done(p.a);
	return finish();
}
