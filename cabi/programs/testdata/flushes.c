/* SPDX-License-Identifier: Apache-2.0 */

/* FLUSH by ibv_wr_flush, of headers that are newer than this program may be built with. */

#include "kit.h"

enum { QP_EX_WITH_FLUSH = 1 << 11, TO_GLOBAL = 1, TO_PERSISTENT = 2, RANGE = 0, REGION = 1, WC_FLUSH = 8,
	ACCESS_FLUSH_GLOBAL = 1 << 8, ACCESS_FLUSH_PERSISTENT = 1 << 9 };

static struct side a, b;
static struct ibv_qp_ex *x;
static struct ibv_mr *from;

/* flush is ibv_wr_flush, whose function stands behind that of the atomic write. */
static void flush(struct ibv_mr *mr, size_t length, uint8_t type, uint8_t level)
{
	typedef void (*function)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
	function *f = (function *)((char *)x + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof x->wr_atomic_write);

	(*f)(x, mr->rkey, (uintptr_t)mr->addr, length, type, level);
}

static struct ibv_qp *create_with(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = { .cap = { 8, 1, 1, 1 }, .qp_type = type, .sq_sig_all = 1, .pd = pd, .send_cq = a.cq,
		.recv_cq = a.cq, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = ops };

	return ibv_create_qp_ex(context, &attr);
}

static void connect_again(int access)
{
	struct ibv_qp_attr attr = { .qp_access_flags = access };

	if (a.qp)
		destroy(&a), destroy(&b);
	CHECK((a.cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	CHECK((a.qp = create_with(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_FLUSH)));
	CHECK((x = ibv_qp_to_qp_ex(a.qp)));
	create(&b);
	connect_to(&a, &b);
	connect_to(&b, &a);
	CHECK(!ibv_modify_qp(b.qp, &attr, IBV_QP_ACCESS_FLAGS));
}

/* write_and_flush returns how the FLUSH ended that followed a WRITE. */
static enum ibv_wc_status write_and_flush(struct ibv_mr *to, size_t length, uint8_t type, uint8_t level)
{
	struct ibv_wc wc;

	memset(to->addr, 0, 4096);
	ibv_wr_start(x);
	x->wr_id = 1;
	ibv_wr_rdma_write(x, to->rkey, (uintptr_t)to->addr);
	ibv_wr_set_sge(x, from->lkey, (uintptr_t)from->addr, 4096);
	x->wr_id = 2;
	flush(to, length, type, level);
	CHECK(!ibv_wr_complete(x));
	wc = next(&a);
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	wc = next(&a);
	CHECK(wc.wr_id == 2);
	CHECK(wc.status != IBV_WC_SUCCESS || (wc.opcode == (enum ibv_wc_opcode)WC_FLUSH && !memcmp(to->addr, from->addr, 4096)));
	return wc.status;
}

/* refused tells whether a FLUSH cannot be posted, nor what was put together before it. */
static int refused(struct ibv_mr *to, size_t length, uint8_t type, uint8_t level)
{
	struct ibv_wc wc;

	ibv_wr_start(x);
	ibv_wr_rdma_write(x, to->rkey, (uintptr_t)to->addr);
	ibv_wr_set_sge(x, from->lkey, (uintptr_t)from->addr, 1);
	flush(to, length, type, level);
	return ibv_wr_complete(x) == EINVAL && errno == EINVAL && !ibv_poll_cq(a.cq, 1, &wc);
}

int main(void)
{
	const int all = IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT;
	char name[] = "/tmp/flushes-XXXXXX";
	struct ibv_send_wr plain = { .opcode = 14 }, *bad;
	struct ibv_device_attr_ex attr;
	struct ibv_mr *visible, *file;
	int fd;

	alarm(170);
	CHECK((fd = mkstemp(name)) >= 0 && !ftruncate(fd, 4096));
	open_device();
	CHECK(!ibv_query_device_ex(context, NULL, &attr) && attr.device_cap_flags_ex & 1ull << 38 && attr.device_cap_flags_ex & 1ull << 39);
	from = new_region(4096);
	memset(from->addr, 7, 4096);
	visible = ibv_reg_mr(pd, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL);
	file = ibv_reg_mr(pd, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), 4096, IBV_ACCESS_LOCAL_WRITE | all);
	CHECK(visible && (file || errno == EOPNOTSUPP)); /* not persistent: the folder is itself in memory */
	CHECK(!unlink(name));

	connect_again(all);
	CHECK(!create_with(IBV_QPT_UC, QP_EX_WITH_FLUSH) && errno == EOPNOTSUPP);
	CHECK(write_and_flush(visible, 4096, TO_GLOBAL, RANGE) == IBV_WC_SUCCESS);
	CHECK(write_and_flush(visible, 0, TO_GLOBAL, REGION) == IBV_WC_SUCCESS);
	if (file) {
		CHECK(write_and_flush(file, 10, TO_PERSISTENT, RANGE) == IBV_WC_SUCCESS);
		CHECK(write_and_flush(file, 0, TO_GLOBAL | TO_PERSISTENT, REGION) == IBV_WC_SUCCESS);
	}
	CHECK(refused(visible, 1, 0, RANGE) && refused(visible, 1, 4, RANGE) && refused(visible, 1, TO_GLOBAL, 2));
	CHECK(refused(visible, 1ull << 32, TO_GLOBAL, RANGE));
	CHECK(ibv_post_send(a.qp, &plain, &bad) == EINVAL && bad == &plain); /* it has no place for what FLUSH is told */

	CHECK(write_and_flush(visible, 4096, TO_PERSISTENT, RANGE) == IBV_WC_REM_ACCESS_ERR);
	connect_again(all);
	CHECK(write_and_flush(visible, 4097, TO_GLOBAL, RANGE) == IBV_WC_REM_ACCESS_ERR);
	connect_again(IBV_ACCESS_REMOTE_WRITE);
	CHECK(write_and_flush(visible, 4096, TO_GLOBAL, RANGE) == IBV_WC_REM_INV_REQ_ERR);
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dereg_mr(from) && !ibv_dereg_mr(visible) && (!file || !ibv_dereg_mr(file)));
	return 0;
}
