/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE and then a READ of the same bytes keep their order on one queue pair, and have none on two. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *shared = region(LARGE), *to = region(LARGE);

	post_write(p.a, from, 0, LARGE, shared, 0, SIGNALED);
	post_read(MISTAKE ? q.a : p.a, to, 0, LARGE, shared, 0, SIGNALED);
	done(p.a);
	done(MISTAKE ? q.a : p.a);
	return finish();
}
