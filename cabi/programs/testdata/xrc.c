/* SPDX-License-Identifier: Apache-2.0 */

/* XRC queue pairs of ids: with the domain and the queues that librdmacm makes, and with the program's own.
 * The initiator's messages arrive in the shared receive queue that it names. A listener for initiators takes
 * nobody else. */

#include "kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define MESSAGE "by way of a shared receive queue"

static struct rdma_addrinfo at = { .ai_flags = RAI_PASSIVE, .ai_family = AF_INET, .ai_port_space = RDMA_PS_IB,
	.ai_qp_type = IBV_QPT_XRC_RECV, .ai_src_len = sizeof(struct sockaddr_in) };

static struct rdma_cm_id *client(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, type == IBV_QPT_RC, 1, type == IBV_QPT_RC, sizeof MESSAGE }, .sq_sig_all = 1 };
	struct rdma_addrinfo to = { .ai_family = AF_INET, .ai_port_space = RDMA_PS_IB, .ai_qp_type = type,
		.ai_dst_len = at.ai_src_len, .ai_dst_addr = at.ai_src_addr };
	struct rdma_cm_id *id;

	CHECK(!rdma_create_ep(&id, &to, NULL, &attr));
	CHECK(id->qp->qp_type == type);
	return id;
}

/* initiate connects and sends to the queue whose number comes with the answer. */
static void *initiate(void *none)
{
	struct rdma_cm_id *id = client(IBV_QPT_XRC_SEND);
	struct ibv_sge sge = { .addr = (uintptr_t)MESSAGE, .length = sizeof MESSAGE };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = &sge, .num_sge = 1 }, *bad;
	uint32_t number;
	struct ibv_wc wc;

	CHECK(!rdma_connect(id, NULL));
	memcpy(&number, id->event->param.conn.private_data, sizeof number);
	CHECK(id->event->param.conn.srq);
	wr.qp_type.xrc.remote_srqn = ntohl(number);
	CHECK(!ibv_post_send(id->qp, &wr, &bad));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	return none;
}

/* usual makes the id's queue as programs do that bring nothing. */
static void usual(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } }; /* more than the target's receives */

	CHECK(id->qp && id->qp->qp_type == IBV_QPT_XRC_RECV);
	CHECK(!rdma_create_srq(id, NULL, &attr));
	CHECK(id->recv_cq->cqe >= 8);
}

/* late makes the queue first: the target finds its completion queue. */
static void late(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 0, 1, 0, 1 }, .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2, .max_sge = 1 } };
	struct ibv_cq *cq;

	CHECK(!rdma_create_srq(id, NULL, &srq) && (cq = id->recv_cq));
	CHECK(!rdma_create_qp(id, NULL, &attr) && id->recv_cq == cq);
}

/* own makes the id's target and its queue of what the program brings, in another order. */
static void own(struct rdma_cm_id *id)
{
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 1, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };
	struct ibv_qp_init_attr_ex qp = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	CHECK(!id->qp);
	CHECK((srq.xrcd = qp.xrcd = ibv_open_xrcd(id->verbs, &domain)));
	CHECK((id->recv_cq_channel = ibv_create_comp_channel(id->verbs)));
	CHECK((srq.cq = id->recv_cq = ibv_create_cq(id->verbs, 1, id, id->recv_cq_channel, 0)));
	CHECK(!rdma_create_srq_ex(id, &srq));
	CHECK(!rdma_create_qp_ex(id, &qp) && id->qp->qp_type == IBV_QPT_XRC_RECV);
}

static void serve(struct ibv_qp_init_attr *attr, void prepare(struct rdma_cm_id *))
{
	struct rdma_conn_param param = { 0 };
	char text[2 * sizeof MESSAGE] = "";
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *mr;
	uint32_t number;
	pthread_t thread;
	struct ibv_wc wc;

	CHECK(!rdma_create_ep(&listener, &at, NULL, attr) && !rdma_listen(listener, 0));
	((struct sockaddr_in *)at.ai_src_addr)->sin_port = rdma_get_src_port(listener);
	CHECK(!pthread_create(&thread, NULL, initiate, NULL));
	CHECK(!rdma_get_request(listener, &id) && id->qp_type == IBV_QPT_XRC_RECV);
	prepare(id);
	CHECK((mr = rdma_reg_msgs(id, text, sizeof text)));
	CHECK(!rdma_post_recv(id, text, text, sizeof text, mr));
	CHECK(!ibv_get_srq_num(id->srq, &number));
	number = htonl(number);
	param.private_data = &number;
	param.private_data_len = sizeof number;
	CHECK(!rdma_accept(id, &param));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)text);
	CHECK(wc.byte_len == sizeof MESSAGE && !strcmp(text, MESSAGE));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!rdma_disconnect(id) && !rdma_dereg_mr(mr));
	rdma_destroy_ep(id);

	id = client(IBV_QPT_RC);
	CHECK(rdma_connect(id, NULL) == -1 && errno == ECONNREFUSED && id->event->status == 9); /* invalid transport service type */
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	((struct sockaddr_in *)at.ai_src_addr)->sin_port = 0;
}

int main(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 0, 1, 0, 1 } };
	struct sockaddr_in here = { .sin_family = AF_INET };

	CHECK(inet_pton(AF_INET, strchr(getenv("RAMJET_DEVICES"), ':') + 1, &here.sin_addr) == 1);
	at.ai_src_addr = (struct sockaddr *)&here;
	serve(&attr, usual);
	serve(NULL, late);
	serve(NULL, own);
	return 0;
}
