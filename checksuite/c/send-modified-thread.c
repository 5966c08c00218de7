/* SPDX-License-Identifier: Apache-2.0 */

/* A thread fills the next message while the last is under way: into a buffer of its own, or into the same. */

#include "suite.h"

static char *buffers[2];

static void *fill(void *arg)
{
	(void)arg;
	memset(buffers[MISTAKE ? 0 : 1], 2, PAGE);
	return NULL;
}

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(2 * PAGE), *to = region(PAGE);

	buffers[0] = from->addr;
	buffers[1] = buffers[0] + PAGE;
	memset(buffers[0], 1, PAGE);
	post_receive(p.b, to, 0, PAGE);
	post_send(p.a, from, 0, PAGE, SIGNALED);
	join(thread(fill, NULL));
	done(p.a);
	done(p.b);
	return finish();
}
