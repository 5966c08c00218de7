/* SPDX-License-Identifier: Apache-2.0 */

/* Memory that is not mapped when it is registered, and memory that is unmapped later. */

#include "kit.h"

enum { size = 1 << 16 };

/* with makes a pair, unmaps one of two regions and returns what became of an operation. */
static enum ibv_wc_status with(enum ibv_wr_opcode op, size_t length, int unmap_remote, enum ibv_wc_status *receiver)
{
	struct ibv_mr *local = new_region(size), *remote = new_region(size);
	enum ibv_wc_status got;
	struct side a, b;

	create_pair(&a, &b);
	if (op == IBV_WR_SEND)
		receive(&b, remote, length);
	CHECK(!mprotect(unmap_remote ? remote->addr : local->addr, size, PROT_NONE)); /* nothing else can come to be there */
	post(&a, op, local, length, op == IBV_WR_SEND ? NULL : remote);
	got = next(&a).status;
	if (receiver)
		*receiver = next(&b).status;
	destroy(&a);
	destroy(&b);
	munmap(local->addr, size);
	munmap(remote->addr, size);
	CHECK(!ibv_dereg_mr(local));
	CHECK(!ibv_dereg_mr(remote));
	return got;
}

int main(void)
{
	static const size_t lengths[] = { 8, 100, 4096, size };
	const int access = IBV_ACCESS_LOCAL_WRITE;
	enum ibv_wc_status receiver;
	void *hole;
	size_t i;

	open_device();
	hole = mmap(NULL, 3 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(!munmap((char *)hole + size, size));
	errno = 0;
	CHECK(!ibv_reg_mr(pd, hole, 3 * size, access) && errno == EFAULT);
	CHECK(!ibv_reg_mr(pd, (void *)16, 100, access) && errno == EFAULT);
	CHECK(!mprotect(hole, size, PROT_READ));
	CHECK(!ibv_reg_mr(pd, hole, size, access) && errno == EFAULT);
	CHECK(!ibv_dereg_mr(ibv_reg_mr(pd, hole, size, 0)));

	for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		CHECK(with(IBV_WR_RDMA_WRITE, lengths[i], 0, NULL) == IBV_WC_LOC_PROT_ERR);
		CHECK(with(IBV_WR_RDMA_WRITE, lengths[i], 1, NULL) == IBV_WC_REM_ACCESS_ERR);
		CHECK(with(IBV_WR_RDMA_READ, lengths[i], 0, NULL) == IBV_WC_LOC_PROT_ERR);
		/* The request was good: the answer failed. */
		CHECK(with(IBV_WR_RDMA_READ, lengths[i], 1, NULL) == IBV_WC_REM_OP_ERR);
		CHECK(with(IBV_WR_SEND, lengths[i], 1, &receiver) == IBV_WC_REM_OP_ERR && receiver == IBV_WC_LOC_PROT_ERR);
	}
	CHECK(with(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, NULL) == IBV_WC_LOC_PROT_ERR);
	CHECK(with(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1, NULL) == IBV_WC_REM_ACCESS_ERR);
	exchange(); /* all is well */
	return 0;
}
