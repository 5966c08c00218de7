/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process writes its data by one queue pair, and tells the other process by a SEND on another. The right one sends when
 * the data is there.
 */

#include "suite.h"

static int writer(int fd)
{
	struct side *s = side(), *other = side();
	struct ibv_mr *from = region(LARGE);
	struct card data = meet(fd, s, from);
	char c;

	meet(fd, other, from);
	hear(fd, &c, 1); /* the receive is posted */
	memset(from->addr, 1, LARGE);
	post_remote(s, IBV_WR_RDMA_WRITE, from, LARGE, data.addr, data.rkey);
	if (!MISTAKE)
		done(s);
	post_send(other, from, 0, 8, SIGNALED);
	done(other);
	if (MISTAKE)
		done(s);
	tell(fd, "d", 1);
	return finish();
}

int main(void)
{
	int fd = start_peer(writer);
	struct side *s = side(), *other = side();
	struct ibv_mr *to = region(LARGE + PAGE);
	volatile char *last = (char *)to->addr + LARGE - 1;
	char c;

	meet(fd, s, to);
	meet(fd, other, to);
	post_receive(other, to, LARGE, PAGE);
	tell(fd, "p", 1);
	done(other);
	CHECK(*last == 1 || MISTAKE);
	hear(fd, &c, 1); /* before that, the queue pairs have to be there */
	return end_peer(finish());
}
