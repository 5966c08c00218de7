/* SPDX-License-Identifier: Apache-2.0 */

/* Inline data in pieces: each is small enough, and together they are not. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.inline_size = 16);
	struct ibv_mr *to = region(PAGE);
	char data[24];
	struct ibv_sge sge[] = { { (uintptr_t)data, 8, 0 }, { (uintptr_t)data + 8, 8, 0 },
		{ (uintptr_t)data + 16, 8, 0 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = SIGNALED | IBV_SEND_INLINE,
		.sg_list = sge, .num_sge = MISTAKE ? 3 : 2 }, *bad;

	memset(data, 1, sizeof data);
	post_receive(p.b, to, 0, PAGE);
	if (!ibv_post_send(p.a->qp, &wr, &bad)) {
		done(p.a);
		done(p.b);
	}
	return finish();
}
