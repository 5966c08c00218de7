/* SPDX-License-Identifier: Apache-2.0 */

/* A counter of records that have been written: an atomic on another queue pair may be ahead of the record. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *counter = small_region(8), *result = small_region(8);
	struct side *second = MISTAKE ? q.a : p.a;
	volatile uint64_t *n = counter->addr;
	volatile char *last = (char *)to->addr + LARGE - 1;

	memset(from->addr, 1, LARGE);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	post_add(second, result, 0, 8, counter, 0, SIGNALED);
	while (!*n)
		;
	CHECK(*last == 1 || MISTAKE);
	done(p.a);
	done(second);
	return finish();
}
