/* SPDX-License-Identifier: Apache-2.0 */

/* A member of a multicast group that only sends gets no datagram of it, its own neither; one request is answered once. */

#include "kit.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

struct member {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	char data[4096];
};

static struct rdma_event_channel *channel;
static struct sockaddr_in here = { .sin_family = AF_INET }, group = { .sin_family = AF_INET };

static struct rdma_cm_event *event(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e;

	CHECK(!rdma_get_cm_event(channel, &e));
	if (e->event != want) {
		fprintf(stderr, "%s, not %s\n", rdma_event_str(e->event), rdma_event_str(want));
		exit(1);
	}
	return e;
}

static void join(struct member *m, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags, .addr = (struct sockaddr *)&group };
	struct ibv_qp_init_attr init = { .cap = { 8, 8, 1, 1 }, .qp_type = IBV_QPT_UD };
	struct ibv_sge sge = { (uintptr_t)m->data, sizeof m->data, 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct rdma_cm_event *e;

	CHECK(!rdma_create_id(channel, &m->id, NULL, RDMA_PS_UDP) && !rdma_bind_addr(m->id, (struct sockaddr *)&here));
	CHECK((m->pd = ibv_alloc_pd(m->id->verbs)) && (m->cq = ibv_create_cq(m->id->verbs, 16, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = m->cq;
	CHECK(!rdma_create_qp(m->id, m->pd, &init));
	CHECK((m->mr = ibv_reg_mr(m->pd, m->data, sizeof m->data, IBV_ACCESS_LOCAL_WRITE)));
	sge.lkey = m->mr->lkey;
	CHECK(!ibv_post_recv(m->id->qp, &wr, &bad) && !ibv_post_recv(m->id->qp, &wr, &bad));
	CHECK(rdma_join_multicast_ex(m->id, &(struct rdma_cm_join_mc_attr_ex){ .comp_mask = attr.comp_mask,
		.join_flags = RDMA_MC_JOIN_FLAG_RESERVED, .addr = attr.addr }, NULL) == -1 && errno == EINVAL);
	CHECK(!rdma_join_multicast_ex(m->id, &attr, NULL));
	e = event(RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK((m->ah = ibv_create_ah(m->pd, &e->param.ud.ah_attr)));
	m->qpn = e->param.ud.qp_num;
	m->qkey = e->param.ud.qkey;
	CHECK(!rdma_ack_cm_event(e));
}

static void leave(struct member *m)
{
	CHECK(!ibv_destroy_ah(m->ah) && !rdma_leave_multicast(m->id, (struct sockaddr *)&group));
	rdma_destroy_qp(m->id);
	CHECK(!ibv_dereg_mr(m->mr) && !ibv_destroy_cq(m->cq) && !ibv_dealloc_pd(m->pd) && !rdma_destroy_id(m->id));
}

static void send_from(struct member *m)
{
	struct ibv_sge sge = { (uintptr_t)m->data, 10, m->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { m->ah, m->qpn, m->qkey } }, *bad;

	CHECK(!ibv_post_send(m->id->qp, &wr, &bad));
}

static void gets(struct member *m)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(m->cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
}

static void memberships(void)
{
	static struct member full, sends;
	struct ibv_wc wc;

	join(&full, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	join(&sends, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	send_from(&sends);
	gets(&full);
	send_from(&full);
	gets(&full); /* its own; what is for the other has arrived with it */
	CHECK(!ibv_poll_cq(sends.cq, 1, &wc));
	leave(&sends);
	leave(&full);
}

static void rejections(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_id *listener, *client;
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1 }, .qp_type = IBV_QPT_RC };
	struct rdma_cm_event *e;
	struct rdma_cm_id *request;

	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) && !rdma_bind_addr(listener, (struct sockaddr *)&here));
	CHECK(!rdma_listen(listener, 1) && !rdma_create_id(channel, &client, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(client, NULL, rdma_get_local_addr(listener), 2000));
	CHECK(!rdma_ack_cm_event(event(RDMA_CM_EVENT_ADDR_RESOLVED)) && !rdma_resolve_route(client, 2000));
	CHECK(!rdma_ack_cm_event(event(RDMA_CM_EVENT_ROUTE_RESOLVED)));
	CHECK(!rdma_create_qp(client, NULL, &init) && !rdma_connect(client, &param));
	e = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	request = e->id;
	CHECK(!rdma_ack_cm_event(e) && !rdma_reject(request, "no", 3));
	CHECK(rdma_reject(request, "no", 3) == -1 && errno == EINVAL);
	CHECK(rdma_accept(request, &param) == -1 && errno == EINVAL);
	e = event(RDMA_CM_EVENT_REJECTED);
	CHECK(!strcmp(e->param.conn.private_data, "no") && !rdma_ack_cm_event(e));
	rdma_destroy_qp(client);
	CHECK(!rdma_destroy_id(request) && !rdma_destroy_id(client) && !rdma_destroy_id(listener));
}

int main(void)
{
	alarm(170);
	CHECK(inet_pton(AF_INET, strchr(getenv("RAMJET_DEVICES"), ':') + 1, &here.sin_addr) == 1);
	CHECK(inet_pton(AF_INET, "239.83.0.7", &group.sin_addr) == 1);
	CHECK((channel = rdma_create_event_channel()));
	memberships();
	rejections();
	rdma_destroy_event_channel(channel);
	return 0;
}
