/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A WRITE is under way while a message goes over another queue pair. That is right if the receiver of the message
 * does not take it for news of the WRITE.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *word = region(PAGE);
	volatile char *last = (char *)to->addr + LARGE - 1;

	memset(from->addr, 1, LARGE);
	post_receive(q.b, word, 0, 64);
	post_receive(p.b, word, 64, 64);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	post_send(p.a, word, 128, 8, SIGNALED);
	post_send(q.a, word, 192, 8, SIGNALED);
	done(q.b);
	if (MISTAKE)
		(void)*last;
	done(p.b);
	CHECK(*last == 1);
	done(p.a);
	done(p.a);
	done(q.a);
	return finish();
}
