/* SPDX-License-Identifier: Apache-2.0 */

/* A region is deregistered after the post of a WRITE, before its completion was polled. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE);

	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	if (MISTAKE)
		deregister(from);
	next(p.a);
	if (!MISTAKE)
		deregister(from);
	return finish();
}
