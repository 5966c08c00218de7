/* SPDX-License-Identifier: Apache-2.0 */

/* Datagrams, of which none is signaled, or one in eight. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned i, n;

	CHECK(!ibv_query_qp(p.a->qp, &attr, IBV_QP_CAP, &init));
	n = init.cap.max_send_wr;
	for (i = 1; i <= n; i++) {
		int signaled = !MISTAKE && i % 8 == 0;

		post_receive(p.b, to, 0, 128);
		post_datagram(p.a, p.b, ah, from, 0, 64, signaled ? SIGNALED : 0);
		if (signaled)
			done(p.a);
		done(p.b);
	}
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
