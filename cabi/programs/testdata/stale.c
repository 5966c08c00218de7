/* SPDX-License-Identifier: Apache-2.0 */

/* Objects that are gone, and such that the program has changed, are errors and never the program's end. */

#include "kit.h"

/* FAILS is for calls that return an errno, which errno is to have as well. */
#define FAILS(x, e) do { int r_; errno = 0; r_ = (x); if (r_ != (e) || errno != (e)) { \
	fprintf(stderr, "%s:%d: %s: %d, errno %d, not %d\n", __FILE__, __LINE__, #x, r_, errno, e); exit(1); } } while (0)
#define NONE(x, e) do { errno = 0; if (x || errno != (e)) { \
	fprintf(stderr, "%s:%d: %s: errno %d, not %d\n", __FILE__, __LINE__, #x, errno, e); exit(1); } } while (0)

static struct side a, b;

/* A window's memory must not be looked at once it is gone, and yet programs do. */
static void windows(void)
{
	struct ibv_mr *mr = new_region(4096);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2), *more[100];
	struct ibv_mw_bind bind = { .bind_info = { mr, (uintptr_t)mr->addr, 4096, IBV_ACCESS_REMOTE_READ } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { two, two->rkey + 1, bind.bind_info } }, *bad;
	int i;

	CHECK(one && two && !ibv_dealloc_mw(one) && !ibv_dealloc_mw(two));
	for (i = 0; i < 100; i++)
		CHECK((more[i] = ibv_alloc_mw(pd, i % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)));
	FAILS(ibv_bind_mw(a.qp, one, &bind), ENOENT);
	FAILS(ibv_post_send(a.qp, &wr, &bad), EINVAL);
	FAILS(ibv_dealloc_mw(one), ENOENT);
	for (i = 0; i < 100; i++)
		CHECK(!ibv_dealloc_mw(more[i]));
	CHECK(!ibv_dereg_mr(mr));
}

static void regions(void)
{
	struct ibv_mr *mr = new_region(4096);

	mr->handle++;
	FAILS(ibv_dereg_mr(mr), ENOENT);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == ENOENT);
	mr->handle--;
	CHECK(!ibv_dereg_mr(mr));
}

/* Work requests name objects, and drivers look at keys and addresses in them, not at handles. */
static void posts(void)
{
	static char data[4096];
	struct ibv_mr *mr = ibv_reg_mr(pd, data, sizeof data, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2), *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = { mr, (uintptr_t)data, sizeof data, IBV_ACCESS_REMOTE_READ };
	struct ibv_mw_bind bind = { .bind_info = info };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { mw, mw->rkey + 1, info } }, *bad;
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1 }, .qp_type = IBV_QPT_UD, .sq_sig_all = 1, .send_cq = a.cq, .recv_cq = a.cq };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	struct ibv_qp *ud = ibv_create_qp(pd, &init);
	struct ibv_ah *ah;

	CHECK(mr && mw && one && ud && !ibv_query_gid(context, 1, 0, &to.grh.dgid) && (ah = ibv_create_ah(pd, &to)));
	mr->handle++;
	mw->handle++;
	one->handle++;
	ah->handle++;
	CHECK(!ibv_post_send(a.qp, &wr, &bad) && next(&a).status == IBV_WC_SUCCESS);
	CHECK(!ibv_bind_mw(a.qp, one, &bind) && next(&a).status == IBV_WC_SUCCESS);
	CHECK(!ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(ud, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .wr.ud = { ah, ud->qp_num, 1 } };
	CHECK(!ibv_post_send(ud, &wr, &bad) && next(&a).status == IBV_WC_SUCCESS);
	FAILS(ibv_destroy_ah(ah), ENOENT);
	mr->handle--;
	mw->handle--;
	one->handle--;
	ah->handle--;
	CHECK(!ibv_destroy_qp(ud) && !ibv_destroy_ah(ah) && !ibv_dealloc_mw(mw) && !ibv_dealloc_mw(one) && !ibv_dereg_mr(mr));
}

static void domains(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *other = ibv_open_device(list[0]);
	struct ibv_srq_init_attr srq = { .attr = { 4, 1 } };
	struct ibv_qp_init_attr qp = { .cap = { 1, 1, 1, 1 }, .qp_type = IBV_QPT_RC, .send_cq = a.cq, .recv_cq = a.cq };
	struct ibv_pd *p = ibv_alloc_pd(context);
	static char data[8];
	int i;

	CHECK(other && p);
	for (i = 0; i < 2; i++) {
		if (i)
			p->context = other;
		else
			p->handle += 7;
		NONE(ibv_reg_mr(p, data, sizeof data, 0), ENOENT);
		NONE(ibv_alloc_mw(p, IBV_MW_TYPE_1), ENOENT);
		NONE(ibv_create_srq(p, &srq), ENOENT);
		NONE(ibv_create_qp(p, &qp), ENOENT);
		FAILS(ibv_dealloc_pd(p), ENOENT);
		if (i)
			p->context = context;
		else
			p->handle -= 7;
	}
	CHECK(!ibv_dealloc_pd(p) && !ibv_close_device(other));
	ibv_free_device_list(list);
	FAILS(ibv_dealloc_pd(pd), EBUSY); /* queue pairs are in it */
}

static void queues(void)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	a.qp->handle ^= 1;
	FAILS(ibv_post_send(a.qp, &send, &bad), ENOENT);
	FAILS(ibv_post_recv(a.qp, &recv, &bad_recv), ENOENT);
	FAILS(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), ENOENT);
	FAILS(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), ENOENT);
	FAILS(ibv_destroy_qp(a.qp), ENOENT);
	a.qp->handle ^= 1;
	a.cq->handle ^= 1;
	CHECK(ibv_poll_cq(a.cq, 1, &wc) < 0);
	FAILS(ibv_req_notify_cq(a.cq, 0), ENOENT);
	FAILS(ibv_resize_cq(a.cq, 128), ENOENT);
	FAILS(ibv_destroy_cq(a.cq), ENOENT);
	a.cq->handle ^= 1;
	FAILS(ibv_destroy_cq(a.cq), EBUSY);
}

int main(void)
{
	alarm(170);
	open_device();
	create_pair(&a, &b);
	windows();
	regions();
	posts();
	domains();
	queues();
	destroy(&a);
	destroy(&b);
	return 0;
}
