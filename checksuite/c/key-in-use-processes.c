/* SPDX-License-Identifier: Apache-2.0 */

/* Two processes. The owner asks its peer to stop, and deregisters without waiting for the answer, or after it. */

#include "suite.h"

static int writer(int fd)
{
	struct side *s = side();
	struct ibv_mr *from = region(PAGE);
	struct card owner = meet(fd, s, from);
	char c;

	post_remote(s, IBV_WR_RDMA_WRITE, from, 64, owner.addr, owner.rkey);
	done(s);
	tell(fd, "w", 1);
	hear(fd, &c, 1); /* the owner's wish comes while another WRITE is under way */
	post_remote(s, IBV_WR_RDMA_WRITE, from, 64, owner.addr, owner.rkey);
	next(s);
	tell(fd, "s", 1);
	return finish();
}

int main(void)
{
	int fd = start_peer(writer);
	struct side *s = side();
	struct ibv_mr *to = region(PAGE);
	char c;

	meet(fd, s, to);
	hear(fd, &c, 1);
	if (MISTAKE)
		deregister(to);
	tell(fd, "?", 1);
	hear(fd, &c, 1);
	if (!MISTAKE)
		deregister(to);
	return end_peer(finish());
}
