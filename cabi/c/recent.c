/* SPDX-License-Identifier: Apache-2.0 */

/* Calls of libibverbs that came after rdma-core 44. Headers that have them need not be installed:
 * what they say of structures is said here. */

#include "ramjet.h"

#include <sys/mman.h>
#include <unistd.h>

/* struct ibv_mr_init_attr; comp_mask says which fields are set. */
struct rj_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};

enum { WITH_IOVA = 1, WITH_ADDR = 2, WITH_FD = 4, WITH_FD_OFFSET = 8, WITH_DMAH = 16, WITH_BUF = 32 };

/* Memory from ibv_alloc_buf: ordinary memory of the process. */
struct ibv_buf {
	void *addr;
	size_t size, mapped;
	struct ibv_pd *pd;
};

struct ibv_mr_init_attr;
EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *init)
{
	const struct rj_mr_init_attr *a = (const struct rj_mr_init_attr *)init;
	uint64_t with = a->comp_mask;

	if (with & (WITH_FD | WITH_FD_OFFSET | WITH_DMAH) || with & ~(uint64_t)(WITH_IOVA | WITH_ADDR | WITH_BUF))
		return rj_fail(NULL, EOPNOTSUPP);
	if (!(with & WITH_ADDR))
		return rj_fail(NULL, EINVAL);
	if (with & WITH_BUF) {
		size_t at = (char *)a->addr - (char *)a->buf->addr;

		if (pd != a->buf->pd || (char *)a->addr < (char *)a->buf->addr || at > a->buf->size || a->length > a->buf->size - at)
			return rj_fail(NULL, EINVAL);
	}
	return rj_reg(pd, a->addr, a->length, with & WITH_IOVA ? a->iova : (uintptr_t)a->addr, a->access);
}

EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **out)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct ibv_buf *b;

	if (!size || size > SIZE_MAX - page)
		return rj_fail(NULL, EINVAL);
	b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->pd = pd;
	b->size = size;
	b->mapped = (size + page - 1) & ~(page - 1);
	b->addr = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->addr == MAP_FAILED)
		return rj_fail(b, errno);
	*out = b;
	return b->addr;
}

EXPORT void ibv_free_buf(struct ibv_buf *b)
{
	munmap(b->addr, b->mapped);
	free(b);
}

EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *b, void *addr, size_t length, int access)
{
	struct rj_mr_init_attr a = { .length = length, .access = access, .comp_mask = WITH_ADDR | WITH_BUF, .addr = addr, .buf = b };

	return ibv_reg_mr_ex(pd, (struct ibv_mr_init_attr *)&a);
}

/* In units of 100 Mbit/s. */
EXPORT int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	return TRY(query_speed(rj_context(context)->handle, port, speed));
}

/* Not supported: TLP hints, memory of the device or of other devices, and completion counters. */

static int refused(void) { return errno = EOPNOTSUPP; }

struct ibv_dmah;
struct ibv_dmah_init_attr;
EXPORT struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	(void)context, (void)attr;
	return rj_fail(NULL, EOPNOTSUPP);
}
EXPORT int ibv_dealloc_dmah(struct ibv_dmah *dmah) { (void)dmah; return refused(); }
EXPORT int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm) { (void)dm; return rj_failed(EOPNOTSUPP); }
EXPORT int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf) { (void)buf; return rj_failed(ENODATA); } /* it has none */

struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;
EXPORT int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size)
{
	(void)context, (void)caps, (void)size;
	return refused();
}
EXPORT struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr)
{
	(void)context, (void)attr;
	return rj_fail(NULL, EOPNOTSUPP);
}
EXPORT int ibv_destroy_comp_cntr(struct ibv_comp_cntr *c) { (void)c; return refused(); }
EXPORT int ibv_set_comp_cntr(struct ibv_comp_cntr *c, uint64_t v) { (void)c, (void)v; return refused(); }
EXPORT int ibv_set_err_comp_cntr(struct ibv_comp_cntr *c, uint64_t v) { (void)c, (void)v; return refused(); }
EXPORT int ibv_inc_comp_cntr(struct ibv_comp_cntr *c, uint64_t v) { (void)c, (void)v; return refused(); }
EXPORT int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *c, uint64_t v) { (void)c, (void)v; return refused(); }
EXPORT int ibv_read_comp_cntr(struct ibv_comp_cntr *c, uint64_t *v) { (void)c, (void)v; return refused(); }
EXPORT int ibv_read_err_comp_cntr(struct ibv_comp_cntr *c, uint64_t *v) { (void)c, (void)v; return refused(); }
EXPORT int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *c, struct ibv_qp_attach_comp_cntr_attr *attr)
{
	(void)qp, (void)c, (void)attr;
	return refused();
}
