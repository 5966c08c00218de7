/* SPDX-License-Identifier: Apache-2.0 */

/* A datagram is posted with an address handle that was destroyed; the right one goes after the completion. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);
	struct ibv_sge sge = { (uintptr_t)from->addr, 64, from->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = SIGNALED, .sg_list = &sge, .num_sge = 1,
		.wr.ud = { .ah = ah, .remote_qpn = p.b->qp->qp_num, .remote_qkey = QKEY } }, *bad;

	post_receive(p.b, to, 0, PAGE);
	if (MISTAKE)
		CHECK(!ibv_destroy_ah(ah));
	if (!ibv_post_send(p.a->qp, &wr, &bad))
		next(p.a);
	if (!MISTAKE) {
		done(p.b);
		CHECK(!ibv_destroy_ah(ah));
	}
	return finish();
}
