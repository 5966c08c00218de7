/* SPDX-License-Identifier: Apache-2.0 */

/* The program takes the answer of a READ before its completion. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(PAGE), *from = region(PAGE);
	volatile int *answer = to->addr;
	int v = 0;

	*(int *)from->addr = 42;
	post_read(p.a, to, 0, PAGE, from, 0, SIGNALED);
	if (MISTAKE)
		v = *answer;
	done(p.a);
	if (!MISTAKE)
		v = *answer;
	CHECK(v == 42 || MISTAKE);
	return finish();
}
