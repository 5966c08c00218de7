/* SPDX-License-Identifier: Apache-2.0 */

/* Where things end: regions without bytes, lists without an end, keys of windows, access flags of
 * newer headers, the times of completions, and how many objects there may be. */

#include "kit.h"

#include <time.h>

#define ACCESS_FLUSH_GLOBAL (1 << 8) /* of rdma-core 47 */

static void empty_regions(void)
{
	static char data[8];
	struct ibv_mr *mr[2] = { ibv_reg_mr(pd, NULL, 0, IBV_ACCESS_LOCAL_WRITE), ibv_reg_mr(pd, data, 0, IBV_ACCESS_LOCAL_WRITE) };

	for (int i = 0; i < 2; i++) {
		CHECK(mr[i] && mr[i]->length == 0 && mr[i]->lkey);
		CHECK(!ibv_rereg_mr(mr[i], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, data, 8, 0));
		CHECK(!ibv_dereg_mr(mr[i]));
	}
}

/* A list that is a circle has as many work requests as there is room for, and then one too many. */
static void circles(void)
{
	struct ibv_mr *mr = new_region(4096);
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_recv_wr recv[3] = { { .wr_id = 0 }, { .wr_id = 1 }, { .wr_id = 2 } }, *bad_recv = NULL;
	struct ibv_send_wr send[3] = { { .wr_id = 0 }, { .wr_id = 1 }, { .wr_id = 2 } }, *bad = NULL;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct side a, b;

	CHECK(srq);
	for (int i = 0; i < 3; i++) {
		recv[i].sg_list = send[i].sg_list = &sge;
		recv[i].num_sge = send[i].num_sge = 1;
		recv[i].next = &recv[(i + 1) % 3];
		send[i].next = &send[(i + 1) % 3];
		send[i].opcode = IBV_WR_SEND;
	}
	create_pair(&a, &b);
	CHECK(ibv_post_recv(b.qp, recv, &bad_recv) == ENOMEM && bad_recv == &recv[16 % 3]);
	CHECK(ibv_post_send(a.qp, send, &bad) == ENOMEM && bad);
	CHECK(ibv_post_srq_recv(srq, recv, &bad_recv) == ENOMEM && bad_recv == &recv[init.attr.max_wr % 3]);
	for (int i = 0; i < 16; i++)
		CHECK(next(&b).status == IBV_WC_SUCCESS && next(&a).status == IBV_WC_SUCCESS);
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_destroy_srq(srq) && !ibv_dereg_mr(mr));
}

/* Of the key that a type 2 window is to have, the low 8 bits count. */
static void window_keys(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	uint32_t own = mw->rkey & ~0xffu;
	struct side a, b;

	create_pair(&a, &b);
	CHECK(mr && mw);
	for (uint32_t key = 0x12; key < 0xf0000000; key = key * 37 + 5) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { .mw = mw, .rkey = key,
			.bind_info = { mr, (uintptr_t)mr->addr, 64, IBV_ACCESS_REMOTE_WRITE } } }, *bad;
		struct ibv_mr window = { .addr = mr->addr };

		CHECK(!ibv_post_send(b.qp, &wr, &bad));
		CHECK(next(&b).status == IBV_WC_SUCCESS && mw->rkey == (own | (key & 0xff)));
		window.rkey = mw->rkey;
		post(&a, IBV_WR_RDMA_WRITE, mr, 8, &window);
		CHECK(next(&a).status == IBV_WC_SUCCESS);
		wr = (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey };
		CHECK(!ibv_post_send(b.qp, &wr, &bad) && next(&b).status == IBV_WC_SUCCESS);
	}
	CHECK(!ibv_dealloc_mw(mw));
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dereg_mr(mr));
}

/* The flags of a queue pair are those that were given, but for what means nothing there. */
static void access_flags(void)
{
	const int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | ACCESS_FLUSH_GLOBAL;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = flags | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB | 1 << 25 };
	struct ibv_qp_init_attr init;
	struct ibv_mr *mr;
	struct side s;
	char c;

	create(&s);
	CHECK(!ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_query_qp(s.qp, &attr, IBV_QP_ACCESS_FLAGS, &init));
	CHECK((int)attr.qp_access_flags == flags);
	attr.qp_access_flags = 1 << 15;
	CHECK(ibv_modify_qp(s.qp, &attr, IBV_QP_ACCESS_FLAGS) == EINVAL);
	destroy(&s);
	CHECK((mr = ibv_reg_mr(pd, &c, 1, flags | IBV_ACCESS_RELAXED_ORDERING)) && !ibv_dereg_mr(mr));
	CHECK(!ibv_reg_mr(pd, &c, 1, 1 << 15) && errno == EINVAL);
}

static void times(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &attr);
	struct ibv_mr *from = new_region(4096), *to = new_region(4096);
	struct ibv_qp_init_attr init = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_poll_cq_attr poll = { 0 };
	struct timespec real;
	struct side a, b;
	uint64_t last = 0;

	CHECK(ex);
	a.cq = ibv_cq_ex_to_cq(ex);
	init.send_cq = init.recv_cq = a.cq;
	CHECK((a.qp = ibv_create_qp(pd, &init)));
	create(&b);
	connect_to(&a, &b);
	connect_to(&b, &a);
	for (int i = 0; i < 500; i++) {
		uint64_t t;

		post(&a, IBV_WR_RDMA_WRITE, from, 8, to);
		while (ibv_start_poll(ex, &poll))
			;
		t = ibv_wc_read_completion_wallclock_ns(ex);
		CHECK(t >= last);
		last = t;
		CHECK(ibv_wc_read_completion_wallclock_ns(ex) == t); /* asked again, it is the same */
		ibv_end_poll(ex);
	}
	CHECK(!clock_gettime(CLOCK_REALTIME, &real));
	CHECK(last / 1000000000 <= (uint64_t)real.tv_sec + 1 && last / 1000000000 + 60 > (uint64_t)real.tv_sec);
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dereg_mr(from) && !ibv_dereg_mr(to));
}

static void objects(void)
{
	struct ibv_device_attr attr;
	struct ibv_pd **pds;
	int n = 0;

	CHECK(!ibv_query_device(context, &attr));
	CHECK(attr.max_pd == 65536 && attr.max_mr == 65536 && attr.max_mw == 65536 && attr.max_cq == 65536 && attr.max_srq == 65536 &&
		attr.max_ah == 65536);
	CHECK((pds = calloc(attr.max_pd + 1, sizeof *pds)));
	while (n <= attr.max_pd && (pds[n] = ibv_alloc_pd(context)))
		n++;
	CHECK(errno == ENOMEM && n == attr.max_pd - 1); /* there is one already */
	while (n)
		CHECK(!ibv_dealloc_pd(pds[--n]));
	free(pds);
}

int main(void)
{
	alarm(170);
	open_device();
	empty_regions();
	circles();
	window_keys();
	access_flags();
	times();
	objects();
	return 0;
}
