/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE on one queue pair, and a SEND on another that says it is done; the right one is on the same queue pair. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *word = region(PAGE);
	struct pair *second = MISTAKE ? &q : &p;
	volatile char *last = (char *)to->addr + LARGE - 1;

	memset(from->addr, 1, LARGE);
	post_receive(second->b, word, 0, 64);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	post_send(second->a, word, 64, 8, SIGNALED);
	done(second->b);
	CHECK(*last == 1 || MISTAKE);
	done(p.a);
	done(second->a);
	return finish();
}
