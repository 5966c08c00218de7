/* SPDX-License-Identifier: Apache-2.0 */

/* A SEND comes when no receive is posted, and the sender tries for ever. The right receiver posts first. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	if (!MISTAKE)
		post_receive(p.b, to, 0, PAGE);
	post_send(p.a, from, 0, 64, SIGNALED);
	if (MISTAKE) {
		move(p.a, p.b, 300);
		post_receive(p.b, to, 0, PAGE);
	}
	done(p.a);
	done(p.b);
	return finish();
}
