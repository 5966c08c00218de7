/* SPDX-License-Identifier: Apache-2.0 */

/* What is put together from ibv_wr_start on is posted as a whole or not at all. */

#include "kit.h"

static struct side a, b;
static struct ibv_qp_ex *x;
static struct ibv_mr *from, *to;

static void create_extended(void)
{
	struct ibv_qp_init_attr_ex attr = { .cap = { 4, 4, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_RDMA_READ };

	CHECK((a.cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	attr.send_cq = attr.recv_cq = a.cq;
	CHECK((a.qp = ibv_create_qp_ex(context, &attr)));
	CHECK((x = ibv_qp_to_qp_ex(a.qp)));
	create(&b);
	connect_to(&a, &b);
	connect_to(&b, &a);
}

static void write_byte(uint64_t id, size_t at)
{
	x->wr_id = id;
	ibv_wr_rdma_write(x, to->rkey, (uintptr_t)to->addr + at);
	ibv_wr_set_sge(x, from->lkey, (uintptr_t)from->addr, 1);
}

static int posted_nothing(const char *bytes)
{
	struct ibv_wc wc;

	return !ibv_poll_cq(a.cq, 1, &wc) && bytes[0] == 0 && bytes[1] == 0;
}

int main(void)
{
	struct ibv_mw_bind_info nowhere = { .length = 1 };
	struct ibv_sge many[8] = { { 0 } };
	struct ibv_mw *mw;
	uint32_t key;
	uint64_t i;

	alarm(170);
	open_device();
	create_extended();
	from = new_region(4096);
	to = new_region(4096);
	memset(from->addr, 1, 1);
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)));
	key = mw->rkey;

	ibv_wr_start(x); /* a work request of more pieces than the queue pair has */
	write_byte(1, 0);
	ibv_wr_rdma_read(x, to->rkey, (uintptr_t)to->addr);
	ibv_wr_set_sge_list(x, 8, many);
	write_byte(2, 1);
	CHECK(ibv_wr_complete(x) == EINVAL && posted_nothing(to->addr));

	ibv_wr_start(x); /* inline data beyond max_inline_data */
	write_byte(1, 0);
	ibv_wr_rdma_write(x, to->rkey, (uintptr_t)to->addr);
	ibv_wr_set_inline_data(x, from->addr, 4000);
	CHECK(ibv_wr_complete(x) == EINVAL && posted_nothing(to->addr));

	ibv_wr_start(x); /* a window of no region; that it has a new key is taken back */
	write_byte(1, 0);
	ibv_wr_bind_mw(x, mw, ibv_inc_rkey(key), &nowhere);
	CHECK(ibv_wr_complete(x) == EINVAL && posted_nothing(to->addr) && mw->rkey == key);

	ibv_wr_start(x);
	CHECK(!ibv_wr_complete(x)); /* none at all is right */

	ibv_wr_start(x); /* more than there is room for */
	for (i = 0; i < 5000; i++)
		write_byte(i, 0);
	CHECK(ibv_wr_complete(x) == ENOMEM && posted_nothing(to->addr));

	ibv_wr_start(x); /* given up */
	write_byte(1, 0);
	ibv_wr_abort(x);
	CHECK(posted_nothing(to->addr));

	ibv_wr_start(x);
	write_byte(7, 0);
	write_byte(8, 1);
	CHECK(!ibv_wr_complete(x));
	CHECK(next(&a).wr_id == 7);
	CHECK(next(&a).wr_id == 8);
	CHECK(((char *)to->addr)[0] == 1 && ((char *)to->addr)[1] == 1);

	CHECK(!ibv_dealloc_mw(mw));
	destroy(&a);
	destroy(&b);
	return 0;
}
