/* SPDX-License-Identifier: Apache-2.0 */

/* A thread that has an event of a queue uses the queue until it acknowledges the event, while another destroys
 * the queue, which waits for that: what it does reaches no other object. */

#include "kit.h"

#include <pthread.h>

static void *destroy_cq(void *cq)
{
	CHECK(!ibv_destroy_cq(cq));
	return NULL;
}

int main(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_comp_channel *channel;
	struct ibv_mr *from, *to;
	struct ibv_cq *cq, *got;
	struct side a, b, c;
	struct ibv_wc wc;
	pthread_t thread;
	void *unused;
	int i;

	alarm(170);
	open_device();
	from = new_region(4096);
	to = new_region(4096);
	CHECK((channel = ibv_create_comp_channel(context)));
	CHECK((cq = ibv_create_cq(context, 16, NULL, channel, 0)));
	attr.send_cq = attr.recv_cq = cq;
	CHECK((a.qp = ibv_create_qp(pd, &attr)));
	create(&b);
	connect_to(&a, &b);
	connect_to(&b, &a);
	CHECK(!ibv_req_notify_cq(cq, 0));
	post(&a, IBV_WR_RDMA_WRITE, from, 8, to);
	CHECK(!ibv_get_cq_event(channel, &got, &unused) && got == cq);
	CHECK(!ibv_destroy_qp(a.qp) && !ibv_destroy_qp(b.qp) && !ibv_destroy_cq(b.cq));
	CHECK(!pthread_create(&thread, NULL, destroy_cq, cq));
	while (!ibv_req_notify_cq(cq, 0)) /* until it is gone but for the event */
		sched_yield();

	create_pair(&a, &c);
	post(&a, IBV_WR_RDMA_WRITE, from, 8, to);
	for (i = 0; i < 100000; i++)
		CHECK(ibv_poll_cq(cq, 1, &wc) <= 0);
	CHECK(ibv_req_notify_cq(cq, 0));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	ibv_ack_cq_events(cq, 1);
	CHECK(!pthread_join(thread, NULL));
	destroy(&a);
	destroy(&c);
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dereg_mr(from) && !ibv_dereg_mr(to));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
