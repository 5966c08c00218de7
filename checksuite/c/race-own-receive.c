/* SPDX-License-Identifier: Apache-2.0 */

/* A peer WRITEs into memory that its owner has posted for a receive; the right owner posts the other half. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(PAGE), *to = region(2 * PAGE);

	post_receive(q.b, to, MISTAKE ? 0 : PAGE, PAGE);
	post_write(p.a, from, 0, PAGE, to, 0, SIGNALED);
	post_send(q.a, from, 0, PAGE, SIGNALED);
	done(p.a);
	done(q.a);
	done(q.b);
	return finish();
}
