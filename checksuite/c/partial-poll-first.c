/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The target waits for the first byte of a long WRITE, and takes that for all of it; the right one waits for a
 * SEND.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *word = region(PAGE);
	volatile char *first = to->addr, *last = first + LARGE - 1;

	memset(from->addr, 1, LARGE);
	post_receive(p.b, word, 0, 64);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	post_send(p.a, word, 64, 8, SIGNALED);
	if (MISTAKE)
		while (!*first)
			;
	else
		done(p.b);
	CHECK(*last == 1 || MISTAKE);
	done(p.a);
	done(p.a);
	if (MISTAKE)
		done(p.b);
	return finish();
}
