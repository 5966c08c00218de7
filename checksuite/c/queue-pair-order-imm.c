/* SPDX-License-Identifier: Apache-2.0 */

/* The data is written on one queue pair, and immediate data comes on another: before the completion, or after it. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *head = region(PAGE);
	volatile char *last = (char *)to->addr + LARGE - 1;

	memset(from->addr, 1, LARGE);
	post_receive(q.b, head, 0, 0);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	if (!MISTAKE)
		done(p.a);
	post_imm(q.a, head, 64, 8, head, 128, SIGNALED);
	done(q.b);
	CHECK(*last == 1 || MISTAKE);
	done(q.a);
	if (MISTAKE)
		done(p.a);
	return finish();
}
