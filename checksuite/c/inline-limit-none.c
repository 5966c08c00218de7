/* SPDX-License-Identifier: Apache-2.0 */

/* No inline data was asked for. The program sends some without a look at what was granted, or after that. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.inline_size = -1);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_sge sge = { (uintptr_t)from->addr, 8, from->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = SIGNALED, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_query_qp(p.a->qp, &attr, IBV_QP_CAP, &init));
	if (MISTAKE || init.cap.max_inline_data >= 8)
		wr.send_flags |= IBV_SEND_INLINE;
	post_receive(p.b, to, 0, PAGE);
	if (!ibv_post_send(p.a->qp, &wr, &bad)) {
		done(p.a);
		done(p.b);
	}
	return finish();
}
