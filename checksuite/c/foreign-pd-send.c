/* SPDX-License-Identifier: Apache-2.0 */

/* A SEND from a region of another domain than the queue pair's. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *own = region(PAGE), *to = region(PAGE), *foreign;
	struct ibv_pd *other;
	static char memory[PAGE];

	CHECK((other = ibv_alloc_pd(context)));
	CHECK((foreign = ibv_reg_mr(other, memory, PAGE, IBV_ACCESS_LOCAL_WRITE)));
	post_receive(p.b, to, 0, PAGE);
	post_send(p.a, MISTAKE ? foreign : own, 0, 64, SIGNALED);
	next(p.a);
	if (!MISTAKE)
		done(p.b);
	CHECK(!ibv_dereg_mr(foreign) && !ibv_dealloc_pd(other));
	return finish();
}
