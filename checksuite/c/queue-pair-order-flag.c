/* SPDX-License-Identifier: Apache-2.0 */

/* The data is written on one queue pair, and the flag that the target waits for on another, or on the same. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *flag = small_region(8), *one = small_region(8);
	struct side *second = MISTAKE ? q.a : p.a;
	volatile uint64_t *f = flag->addr;
	volatile char *last = (char *)to->addr + LARGE - 1;

	*(uint64_t *)one->addr = 1;
	memset(from->addr, 1, LARGE);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	post_write(second, one, 0, 8, flag, 0, SIGNALED);
	while (!*f)
		;
	CHECK(*last == 1 || MISTAKE);
	done(p.a);
	done(second);
	return finish();
}
