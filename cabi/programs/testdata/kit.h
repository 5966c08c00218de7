/* SPDX-License-Identifier: Apache-2.0 */

/* What the test programs share: a pair of connected queue pairs on the first device. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *context;
static struct ibv_pd *pd;

static inline void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	CHECK((context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK((pd = ibv_alloc_pd(context)));
}

static inline void create(struct side *s)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	CHECK((s->cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	attr.send_cq = attr.recv_cq = s->cq;
	CHECK((s->qp = ibv_create_qp(pd, &attr)));
}

static inline void connect_to(struct side *s, struct side *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer->qp->qp_num;
	a.max_dest_rd_atomic = 4;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	CHECK(!ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline void create_pair(struct side *a, struct side *b)
{
	create(a);
	create(b);
	connect_to(a, b);
	connect_to(b, a);
}

static inline void destroy(struct side *s)
{
	CHECK(!ibv_destroy_qp(s->qp));
	CHECK(!ibv_destroy_cq(s->cq));
}

static inline struct ibv_wc next(struct side *s)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(s->cq, 1, &wc)))
		;
	CHECK(n == 1);
	return wc;
}

/* post posts a send work request of one piece of memory. */
static inline void post(struct side *s, enum ibv_wr_opcode op, struct ibv_mr *local, size_t length, struct ibv_mr *remote)
{
	struct ibv_sge sge = { (uintptr_t)local->addr, length, local->lkey };
	struct ibv_send_wr wr = { .opcode = op, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (remote && op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote->addr;
		wr.wr.atomic.rkey = remote->rkey;
	} else if (remote) {
		wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
		wr.wr.rdma.rkey = remote->rkey;
	}
	CHECK(!ibv_post_send(s->qp, &wr, &bad));
}

static inline void receive(struct side *s, struct ibv_mr *mr, size_t length)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, length, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(s->qp, &wr, &bad));
}

static inline struct ibv_mr *new_region(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	CHECK(p != MAP_FAILED);
	CHECK((mr = ibv_reg_mr(pd, p, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC)));
	return mr;
}

/* exchange sends a message from one side to the other of a new pair. */
static inline void exchange(void)
{
	struct ibv_mr *from = new_region(4096), *to = new_region(4096);
	struct side a, b;

	create_pair(&a, &b);
	strcpy(from->addr, "hello");
	receive(&b, to, 4096);
	post(&a, IBV_WR_SEND, from, 4096, NULL);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
	CHECK(!strcmp(to->addr, "hello"));
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dereg_mr(from));
	CHECK(!ibv_dereg_mr(to));
}
