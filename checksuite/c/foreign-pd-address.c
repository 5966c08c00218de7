/* SPDX-License-Identifier: Apache-2.0 */

/* An address handle of another domain than the queue pair's. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_pd *other;
	struct ibv_ah *ah;

	CHECK((other = ibv_alloc_pd(context)));
	ah = address_of_device(MISTAKE ? other : pd);
	post_receive(p.b, to, 0, PAGE);
	post_datagram(p.a, p.b, ah, from, 0, 64, SIGNALED);
	next(p.a);
	if (!MISTAKE)
		done(p.b);
	CHECK(!ibv_destroy_ah(ah) && !ibv_dealloc_pd(other));
	return finish();
}
