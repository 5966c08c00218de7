/* SPDX-License-Identifier: Apache-2.0 */

/* The owner sends memory that a peer is writing. The right owner waits until the peer has said that it is done. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *shared = region(LARGE), *to = region(LARGE), *word = region(PAGE);

	post_receive(q.a, to, 0, LARGE);
	post_receive(p.b, word, 0, 64);
	post_write(p.a, from, 0, LARGE, shared, 0, SIGNALED);
	post_send(p.a, word, 64, 1, SIGNALED);
	if (!MISTAKE)
		done(p.b);
	post_send(q.b, shared, 0, LARGE, SIGNALED);
	if (MISTAKE)
		done(p.b);
	done(p.a);
	done(p.a);
	done(q.b);
	done(q.a);
	return finish();
}
