/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process writes its data by one queue pair, and the flag by another, which the other process waits for. The
 * right one writes the flag when the data is there.
 */

#include "suite.h"

static int writer(int fd)
{
	struct side *s = side(), *other = side();
	struct ibv_mr *from = region(LARGE + 8);
	struct card data = meet(fd, s, from);

	meet(fd, other, from);
	memset(from->addr, 1, LARGE + 8);
	post_remote(s, IBV_WR_RDMA_WRITE, from, LARGE, data.addr, data.rkey);
	if (!MISTAKE)
		done(s);
	post_remote(other, IBV_WR_RDMA_WRITE, from, 8, data.addr + LARGE, data.rkey);
	if (MISTAKE)
		done(s);
	done(other);
	tell(fd, "d", 1);
	return finish();
}

int main(void)
{
	int fd = start_peer(writer);
	struct side *s = side(), *other = side();
	struct ibv_mr *to = region(LARGE + PAGE);
	volatile uint64_t *flag = (uint64_t *)((char *)to->addr + LARGE);
	volatile char *last = (char *)to->addr + LARGE - 1;
	char c;

	meet(fd, s, to);
	meet(fd, other, to);
	while (!*flag)
		;
	CHECK(*last == 1 || MISTAKE);
	hear(fd, &c, 1); /* before that, the queue pairs have to be there */
	return end_peer(finish());
}
