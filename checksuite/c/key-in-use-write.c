/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The owner deregisters its region, and the peer WRITEs by the key that it still has. The right peer writes first,
 * and the owner learns of it by the completion.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	uint64_t addr = (uintptr_t)to->addr;
	uint32_t rkey = to->rkey;

	post_remote(p.a, IBV_WR_RDMA_WRITE, from, 64, addr, rkey);
	done(p.a);
	deregister(to);
	if (MISTAKE) {
		post_remote(p.a, IBV_WR_RDMA_WRITE, from, 64, addr, rkey);
		next(p.a);
	}
	return finish();
}
