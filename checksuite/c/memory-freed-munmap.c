/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory of a posted receive is unmapped while it is registered. The right program destroys the queue pair and
 * deregisters first.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	void *buffer = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = region_at(buffer, LARGE);

	post_receive(p.b, mr, 0, LARGE);
	if (MISTAKE)
		CHECK(!munmap(buffer, LARGE));
	CHECK(!ibv_destroy_qp(p.b->qp));
	p.b->qp = NULL;
	deregister(mr);
	if (!MISTAKE)
		CHECK(!munmap(buffer, LARGE));
	return finish();
}
