/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The owner tells the address of its data, and takes the region back when it has told it, not when the READ was
 * done.
 */

#include "suite.h"

struct offer {
	uint64_t addr;
	uint32_t rkey;
};

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *data = region(PAGE), *told = region(PAGE), *message = region(PAGE), *to = region(PAGE);
	struct offer *o = message->addr;

	*(struct offer *)told->addr = (struct offer){ (uintptr_t)data->addr, data->rkey };
	post_receive(p.a, message, 0, sizeof *o);
	post_receive(p.b, told, PAGE / 2, 64);
	post_send(p.b, told, 0, sizeof *o, SIGNALED);
	done(p.b);
	if (MISTAKE)
		deregister(data);
	done(p.a);
	post_remote(p.a, IBV_WR_RDMA_READ, to, 64, o->addr, o->rkey);
	if (next(p.a).status != IBV_WC_SUCCESS)
		return finish();
	post_send(p.a, to, 0, 1, SIGNALED); /* that the READ is done */
	done(p.a);
	done(p.b);
	if (!MISTAKE)
		deregister(data);
	return finish();
}
