/* SPDX-License-Identifier: Apache-2.0 */

/* Calls whose log the test knows. With an argument it ends by a signal after them: "segv" in a call, or a number. */

#include "kit.h"

#include <rdma/rdma_cma.h>

int main(int argc, char **argv)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	static char memory[4096];
	struct side a, b;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	open_device();
	CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK(!ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE)); /* without LOCAL_WRITE */
	create_pair(&a, &b);
	CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN)); /* which cannot change now */
	sge.addr = (uintptr_t)memory;
	sge.lkey = mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)memory + 64;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(!ibv_post_send(a.qp, &wr, &bad));
	while (!ibv_poll_cq(a.cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(rdma_listen(id, 1) == 0);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	if (argc > 1 && !strcmp(argv[1], "segv"))
		ibv_dereg_mr((struct ibv_mr *)8);
	if (argc > 1)
		kill(getpid(), atoi(argv[1]));
	CHECK(!ibv_dereg_mr(mr));
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
