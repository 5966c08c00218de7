/* SPDX-License-Identifier: Apache-2.0 */

/* A window is deallocated when its owner does not need it, though the peer does. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to;
	struct ibv_mw *mw;
	struct ibv_mw_bind bind = { .wr_id = 1, .send_flags = SIGNALED };
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK((to = ibv_reg_mr(pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)));
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)));
	bind.bind_info = (struct ibv_mw_bind_info){ to, (uintptr_t)memory, PAGE, IBV_ACCESS_REMOTE_WRITE };
	CHECK(!ibv_bind_mw(p.b->qp, mw, &bind));
	done(p.b);
	if (!MISTAKE) {
		post_remote(p.a, IBV_WR_RDMA_WRITE, from, 64, (uintptr_t)memory, mw->rkey);
		done(p.a);
	} else {
		uint32_t rkey = mw->rkey;

		CHECK(!ibv_dealloc_mw(mw));
		post_remote(p.a, IBV_WR_RDMA_WRITE, from, 64, (uintptr_t)memory, rkey);
		next(p.a);
		mw = NULL;
	}
	CHECK(!mw || !ibv_dealloc_mw(mw));
	CHECK(!ibv_dereg_mr(to));
	return finish();
}
