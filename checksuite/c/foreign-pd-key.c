/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE by the key of a region that is in another domain than the peer's queue pair. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *own = region(PAGE), *from = region(PAGE), *foreign;
	struct ibv_pd *other;
	static char memory[PAGE];

	CHECK((other = ibv_alloc_pd(context)));
	CHECK((foreign = ibv_reg_mr(other, memory, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	post_write(p.a, from, 0, 64, MISTAKE ? foreign : own, 0, SIGNALED);
	next(p.a);
	CHECK(!ibv_dereg_mr(foreign) && !ibv_dealloc_pd(other));
	return finish();
}
