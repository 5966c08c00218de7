/* SPDX-License-Identifier: Apache-2.0 */

/* The owner invalidates the key of its window, though the peer has not said that it is done with it. */

#include "suite.h"

static void own(struct side *s, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	wr.send_flags = SIGNALED;
	CHECK(!ibv_post_send(s->qp, &wr, &bad));
	done(s);
}

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to;
	static _Alignas(PAGE) char memory[PAGE];
	struct ibv_mw *mw;
	uint32_t rkey;

	CHECK((to = ibv_reg_mr(pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)));
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)));
	rkey = ibv_inc_rkey(mw->rkey);
	own(p.b, (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW, .bind_mw = { .mw = mw, .rkey = rkey,
		.bind_info = { to, (uintptr_t)memory, PAGE, IBV_ACCESS_REMOTE_WRITE } } });
	post_remote(p.a, IBV_WR_RDMA_WRITE, from, 64, (uintptr_t)memory, rkey);
	done(p.a);
	own(p.b, (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey });
	if (MISTAKE) {
		post_remote(p.a, IBV_WR_RDMA_WRITE, from, 64, (uintptr_t)memory, rkey);
		next(p.a);
	}
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_dereg_mr(to));
	return finish();
}
