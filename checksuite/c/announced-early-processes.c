/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process READs memory of another and sends it to a third place of that process at once. The right one sends it when the
 * READ has ended.
 */

#include "suite.h"

static int reader(int fd)
{
	struct side *s = side();
	struct ibv_mr *to = region(LARGE);
	struct card data = meet(fd, s, to);
	char c;

	hear(fd, &c, 1); /* the receive is posted */
	post_remote(s, IBV_WR_RDMA_READ, to, LARGE, data.addr, data.rkey);
	if (!MISTAKE)
		done(s);
	post_send(s, to, 0, LARGE, SIGNALED);
	if (MISTAKE)
		done(s);
	done(s);
	tell(fd, "d", 1);
	return finish();
}

int main(void)
{
	int fd = start_peer(reader);
	struct side *s = side();
	struct ibv_mr *data = region(2 * LARGE);
	char c;

	memset(data->addr, 1, LARGE);
	meet(fd, s, data);
	post_receive(s, data, LARGE, LARGE);
	tell(fd, "p", 1);
	done(s);
	hear(fd, &c, 1); /* before that, the queue pair has to be there */
	return end_peer(finish());
}
