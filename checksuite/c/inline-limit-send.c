/* SPDX-License-Identifier: Apache-2.0 */

/* 16 bytes of inline data were asked for, and more are posted. A device that grants more takes them. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.inline_size = 16);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_sge sge = { (uintptr_t)from->addr, MISTAKE ? 17 : 16, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = SIGNALED | IBV_SEND_INLINE,
		.sg_list = &sge, .num_sge = 1 }, *bad;

	post_receive(p.b, to, 0, PAGE);
	if (!ibv_post_send(p.a->qp, &wr, &bad)) {
		done(p.a);
		done(p.b);
	}
	return finish();
}
