/* SPDX-License-Identifier: Apache-2.0 */

/* One thread takes events while another destroys the objects that they are of: destroying waits
 * for those that were taken, and nobody hears of the others. */

#include "kit.h"

#include <malloc.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#define ROUNDS 1000

static int mark;

static void *take_completions(void *channel)
{
	struct ibv_cq *cq;
	void *of;

	for (;;) {
		CHECK(!ibv_get_cq_event(channel, &cq, &of) && of == &mark);
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

static void *take_events(void *channel)
{
	struct rdma_cm_event *event;

	for (;;) {
		CHECK(!rdma_get_cm_event(channel, &event) && event->id->context == &mark);
		rdma_ack_cm_event(event);
	}
	return NULL;
}

/* pass lets some time pass, sometimes as much as an event takes. */
static void pass(void)
{
	volatile int i;

	for (i = rand() % 100000; i > 0; i--)
		;
}

static void completions(void)
{
	struct ibv_comp_channel *channel;
	pthread_t thread;
	int i;

	CHECK((channel = ibv_create_comp_channel(context)));
	CHECK(!pthread_create(&thread, NULL, take_completions, channel));
	for (i = 0; i < ROUNDS; i++) {
		struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1 }, .qp_type = IBV_QPT_RC };
		struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
		struct ibv_recv_wr wr = { 0 }, *bad;
		struct side s;

		CHECK((s.cq = attr.send_cq = attr.recv_cq = ibv_create_cq(context, 1, &mark, channel, 0)));
		CHECK((s.qp = ibv_create_qp(pd, &attr)));
		CHECK(!ibv_modify_qp(s.qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		to.qp_state = IBV_QPS_ERR;
		CHECK(!ibv_modify_qp(s.qp, &to, IBV_QP_STATE));
		CHECK(!ibv_req_notify_cq(s.cq, 0) && !ibv_post_recv(s.qp, &wr, &bad)); /* which is flushed */
		pass();
		destroy(&s);
	}
}

static void management(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP }, *at;
	struct rdma_cm_id *id;
	pthread_t thread;
	int i;

	CHECK(channel && !rdma_getaddrinfo(strchr(getenv("RAMJET_DEVICES"), ':') + 1, "7", &hints, &at));
	CHECK(!pthread_create(&thread, NULL, take_events, channel));
	for (i = 0; i < ROUNDS; i++) {
		CHECK(!rdma_create_id(channel, &id, &mark, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, at->ai_dst_addr, 1000));
		pass();
		CHECK(!rdma_destroy_id(id));
	}
	rdma_freeaddrinfo(at);
}

int main(void)
{
	alarm(170);
	mallopt(M_PERTURB, 0x5a); /* freed memory looks like nothing that was there */
	open_device();
	completions();
	management();
	return 0;
}
