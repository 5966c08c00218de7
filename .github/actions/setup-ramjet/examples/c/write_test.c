// SPDX-License-Identifier: Apache-2.0
//
// Two queue pairs of a process: one writes into the other's memory, and the bytes are compared.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

static char memory[2][64];

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	check(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}}};
	check(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	check(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *dev = list && list[0] ? ibv_open_device(list[0]) : NULL;
	check(dev != NULL, "there is no device");
	struct ibv_pd *pd = ibv_alloc_pd(dev);
	struct ibv_cq *cq = ibv_create_cq(dev, 4, NULL, NULL, 0);
	check(pd && cq, "objects");
	union ibv_gid gid;
	check(!ibv_query_gid(dev, 1, 0, &gid), "ibv_query_gid");

	struct ibv_mr *mr[2];
	struct ibv_qp *qp[2];
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
		mr[i] = ibv_reg_mr(pd, memory[i], sizeof memory[i], IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		qp[i] = ibv_create_qp(pd, &attr);
		check(mr[i] && qp[i], "a queue pair and its memory");
	}
	for (int i = 0; i < 2; i++)
		connect_to(qp[i], qp[!i], &gid);

	strcpy(memory[0], "written by RDMA");
	struct ibv_sge sge = {.addr = (uintptr_t)memory[0], .length = sizeof memory[0], .lkey = mr[0]->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = {.remote_addr = (uintptr_t)memory[1], .rkey = mr[1]->rkey}}, *bad;
	check(!ibv_post_send(qp[0], &wr, &bad), "ibv_post_send");
	struct ibv_wc wc;
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	if (wc.status != IBV_WC_SUCCESS || memcmp(memory[0], memory[1], sizeof memory[0])) {
		fprintf(stderr, "%s: \"%s\"\n", ibv_wc_status_str(wc.status), memory[1]);
		return 1;
	}
	printf("%s: %s\n", ibv_get_device_name(dev->device), memory[1]);
	return 0;
}
