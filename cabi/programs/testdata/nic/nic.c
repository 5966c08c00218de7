/* SPDX-License-Identifier: Apache-2.0 */

/* What a program sees of a device that acts as a NIC: queues exactly as asked, places that polled completions free, and
 * a completion queue that fails with its queue pairs. */

#include "../kit.h"

#include <poll.h>

static int write_to(struct side *s, struct ibv_mr *mr, int flags, int pieces)
{
	struct ibv_sge sge[2] = { { (uintptr_t)mr->addr, 4, mr->lkey }, { (uintptr_t)mr->addr, 4, mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = pieces, .send_flags = flags }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
	wr.wr.rdma.rkey = mr->rkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

static void create_with(struct side *s, int cqe, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr attr = { .cap = cap, .qp_type = IBV_QPT_RC };

	CHECK((s->cq = ibv_create_cq(context, cqe, NULL, NULL, 0)) && s->cq->cqe == cqe);
	attr.send_cq = attr.recv_cq = s->cq;
	CHECK((s->qp = ibv_create_qp(pd, &attr)));
	CHECK(!memcmp(&attr.cap, &cap, sizeof cap));
}

static void expect(enum ibv_event_type type)
{
	struct pollfd p = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(poll(&p, 1, -1) == 1 && !ibv_get_async_event(context, &event));
	if (event.event_type != type) {
		fprintf(stderr, "%s, not %s\n", ibv_event_type_str(event.event_type), ibv_event_type_str(type));
		exit(1);
	}
	ibv_ack_async_event(&event);
}

int main(void)
{
	struct ibv_mr *mr;
	struct side a, b;
	struct ibv_wc wc;

	alarm(170);
	open_device();
	mr = new_region(64);
	create_with(&a, 2, (struct ibv_qp_cap){ .max_send_wr = 3, .max_send_sge = 1 });
	create_with(&b, 1, (struct ibv_qp_cap){ .max_recv_wr = 1, .max_recv_sge = 1, .max_inline_data = 1 });
	connect_to(&a, &b);
	connect_to(&b, &a);

	/* Nothing was asked for, and nothing is there. */
	CHECK(write_to(&a, mr, IBV_SEND_INLINE, 1) && write_to(&a, mr, IBV_SEND_INLINE, 2) && write_to(&a, mr, 0, 2));
	CHECK(write_to(&b, mr, IBV_SEND_SIGNALED, 0) == ENOMEM);

	/* A polled completion frees the places of those before it. */
	for (int i = 0; i < 3; i++) {
		CHECK(!write_to(&a, mr, 0, 1) && !write_to(&a, mr, 0, 1) && !write_to(&a, mr, IBV_SEND_SIGNALED, 1));
		CHECK(write_to(&a, mr, 0, 1) == ENOMEM);
		wc = next(&a);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE);
	}

	/* A completion more than fits is the end of the queue. */
	for (int i = 0; i < 3; i++)
		CHECK(!write_to(&a, mr, IBV_SEND_SIGNALED, 1));
	expect(IBV_EVENT_CQ_ERR);
	expect(IBV_EVENT_QP_FATAL);
	CHECK(ibv_poll_cq(a.cq, 1, &wc) == -EIO);
	destroy(&a);
	destroy(&b);

	/* What fails says no more than that. */
	create_with(&a, 8, (struct ibv_qp_cap){ .max_send_wr = 2, .max_send_sge = 1, .max_inline_data = 4 });
	create_with(&b, 1, (struct ibv_qp_cap){ .max_recv_wr = 1, .max_recv_sge = 1 });
	connect_to(&a, &b);
	connect_to(&b, &a);
	CHECK(!write_to(&a, mr, IBV_SEND_INLINE, 1));
	mr->lkey++;
	CHECK(!write_to(&a, mr, 0, 1));
	mr->lkey--;
	wc = next(&a);
	CHECK(wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 7 && wc.qp_num == a.qp->qp_num && wc.opcode == 0);

	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
