/* SPDX-License-Identifier: Apache-2.0 */

/* The GRH goes into a piece of its own, of 40 bytes, or of too few. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);
	struct ibv_sge sge[] = { { (uintptr_t)to->addr, MISTAKE ? 20 : GRH, to->lkey },
		{ (uintptr_t)to->addr + 64, 64, to->lkey } };
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = 2 }, *bad;

	CHECK(!ibv_post_recv(p.b->qp, &wr, &bad));
	post_datagram(p.a, p.b, ah, from, 0, 64, SIGNALED);
	done(p.a);
	if (MISTAKE)
		move(p.b, p.b, 100);
	else
		done(p.b);
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
