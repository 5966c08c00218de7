/* SPDX-License-Identifier: Apache-2.0 */

/* A list of a READ and a WRITE with immediate data of the bytes that the READ brings; the right one has a fence. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *data = region(PAGE), *to = region(PAGE);
	struct ibv_sge sge = { (uintptr_t)data->addr, PAGE, data->lkey };
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &sge, .num_sge = 1,
		.send_flags = SIGNALED | (MISTAKE ? 0 : IBV_SEND_FENCE), .wr.rdma = { (uintptr_t)to->addr, to->rkey } };
	struct ibv_send_wr read = { .next = &write, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1,
		.send_flags = SIGNALED, .wr.rdma = { (uintptr_t)from->addr, from->rkey } }, *bad;

	post_receive(p.b, to, 0, 0);
	CHECK(!ibv_post_send(p.a->qp, &read, &bad));
	done(p.a);
	done(p.a);
	done(p.b);
	return finish();
}
