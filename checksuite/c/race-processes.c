/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process writes to memory of another, which sends the same bytes to a third place. They tell each other by a
 * pipe: the right writer when its WRITE is complete, the wrong one when it has posted it.
 */

#include "suite.h"

static int writer(int fd)
{
	struct side *s = side();
	struct ibv_mr *from = region(LARGE);
	struct card owner = meet(fd, s, from);
	char c;

	post_remote(s, IBV_WR_RDMA_WRITE, from, LARGE, owner.addr, owner.rkey);
	if (!MISTAKE)
		done(s);
	tell(fd, "w", 1);
	hear(fd, &c, 1); /* the owner has posted its SEND */
	if (MISTAKE)
		done(s);
	tell(fd, "d", 1);
	return finish();
}

int main(void)
{
	int fd = start_peer(writer);
	struct side *s = side();
	struct pair p = pair();
	struct ibv_mr *shared = region(LARGE), *to = region(LARGE);
	char c;

	post_receive(p.b, to, 0, LARGE);
	meet(fd, s, shared);
	hear(fd, &c, 1);
	post_send(p.a, shared, 0, LARGE, SIGNALED);
	tell(fd, "s", 1);
	done(p.a);
	done(p.b);
	hear(fd, &c, 1); /* before that, the queue pair has to be there */
	return end_peer(finish());
}
