/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A list of four SENDs, each signaled. Two completions were polled: the second buffer is the program's, the third
 * is not.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(4 * PAGE), *to = region(4 * PAGE);
	struct ibv_sge sge[4];
	struct ibv_send_wr wr[4] = { 0 }, *bad;
	int i;

	for (i = 0; i < 4; i++) {
		post_receive(p.b, to, i * PAGE, PAGE);
		sge[i] = (struct ibv_sge){ (uintptr_t)from->addr + i * PAGE, PAGE, from->lkey };
		wr[i] = (struct ibv_send_wr){ .next = i < 3 ? &wr[i + 1] : NULL, .sg_list = &sge[i], .num_sge = 1,
			.opcode = IBV_WR_SEND, .send_flags = SIGNALED };
	}
	memset(from->addr, 1, 4 * PAGE);
	CHECK(!ibv_post_send(p.a->qp, wr, &bad));
	done(p.a);
	done(p.a);
	memset((char *)from->addr + (MISTAKE ? 2 : 1) * PAGE, 2, PAGE);
	done(p.a);
	done(p.a);
	for (i = 0; i < 4; i++)
		done(p.b);
	return finish();
}
