/* SPDX-License-Identifier: Apache-2.0 */

/* A shared receive queue grows and shrinks, with receives in it, and keeps them. */

#include "kit.h"

#define FAILS(x, e) do { int r_ = (x); if (r_ != (e) || errno != (e)) { \
	fprintf(stderr, "%s:%d: %s: %d, errno %d, not %d\n", __FILE__, __LINE__, #x, r_, errno, e); exit(1); } } while (0)

static struct ibv_srq *srq;
static struct ibv_mr *mr;

static int resize(uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static int arm(uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

static struct ibv_srq_attr attributes(void)
{
	struct ibv_srq_attr attr;

	CHECK(!ibv_query_srq(srq, &attr));
	return attr;
}

/* fill posts receives until there is no room, and returns how many; their ids go on from first. */
static uint32_t fill(uint64_t first)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = first, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err;

	for (; !(err = ibv_post_srq_recv(srq, &wr, &bad)); wr.wr_id++)
		;
	CHECK(err == ENOMEM);
	return (uint32_t)(wr.wr_id - first);
}

int main(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .max_wr = 32, .srq_limit = 4 };
	struct ibv_device_attr device;
	struct ibv_wc wc;
	struct side a, b;

	alarm(170);
	open_device();
	CHECK(!ibv_query_device(context, &device));
	mr = new_region(4096);
	CHECK((srq = ibv_create_srq(pd, &init)) && attributes().max_wr == 8);
	create(&a);
	CHECK((b.cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	CHECK((b.qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){ .cap = { 1, 0, 1, 0 }, .qp_type = IBV_QPT_RC, .srq = srq,
		.send_cq = b.cq, .recv_cq = b.cq })));
	connect_to(&a, &b);
	connect_to(&b, &a);

	CHECK(fill(0) == 8);
	CHECK(!resize(16) && attributes().max_wr == 16 && fill(8) == 8);
	FAILS(resize(15), EINVAL); /* 16 are posted */
	FAILS(resize(0), EINVAL);
	FAILS(resize((uint32_t)device.max_srq_wr + 1), EINVAL);
	FAILS(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | 1 << 10), EINVAL);
	CHECK(attributes().max_wr == 16);
	for (uint64_t i = 0; i < 12; i++) {
		post(&a, IBV_WR_SEND, mr, 8, NULL);
		CHECK(next(&a).status == IBV_WC_SUCCESS);
		wc = next(&b);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
	CHECK(!arm(4));
	FAILS(resize(3), EINVAL); /* 4 are posted */
	CHECK(!resize(4) && fill(16) == 0);
	FAILS(arm(5), EINVAL);
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	CHECK(attributes().max_wr == 32 && attributes().srq_limit == 4 && fill(16) == 28);
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_destroy_srq(srq) && !ibv_dereg_mr(mr));
	return 0;
}
