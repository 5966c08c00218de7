/* SPDX-License-Identifier: Apache-2.0 */

/* Protection domains, thread domains, regions, windows. */

#include "ramjet.h"

#include <stdio.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct rj_pd *p = calloc(1, sizeof *p);
	int err;

	if (!p)
		return NULL;
	err = TRY(alloc_pd(rj_context(context)->handle, &p->handle));
	if (err)
		return rj_fail(p, err);
	p->pd.context = p->context = context;
	p->pd.handle = (uint32_t)p->handle;
	return &p->pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct rj_pd *p = (struct rj_pd *)pd;
	int err = 0;

	if (__atomic_load_n(&p->children, __ATOMIC_SEQ_CST))
		return rj_errno(EBUSY);
	if (!rj_pd_handle(pd))
		return rj_errno(ENOENT);
	if (!p->parent)
		err = TRY(dealloc_pd(p->handle));
	if (err)
		return err;
	if (p->parent) {
		__atomic_sub_fetch(&((struct rj_pd *)p->parent)->children, 1, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(&rj_context(pd->context)->domains, 1, __ATOMIC_SEQ_CST);
	}
	if (p->td)
		__atomic_sub_fetch(&((struct rj_td *)p->td)->users, 1, __ATOMIC_SEQ_CST);
	rj_discard(p);
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct rj_td *t;

	if (attr->comp_mask)
		return rj_fail(NULL, EINVAL);
	t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->td.context = context;
	__atomic_add_fetch(&rj_context(context)->domains, 1, __ATOMIC_SEQ_CST);
	return &t->td;
}

static int dealloc_td(struct ibv_td *td)
{
	if (__atomic_load_n(&((struct rj_td *)td)->users, __ATOMIC_SEQ_CST))
		return rj_errno(EBUSY);
	__atomic_sub_fetch(&rj_context(td->context)->domains, 1, __ATOMIC_SEQ_CST);
	rj_discard(td);
	return 0;
}

struct ibv_mr *rj_reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct rj_mr *m = calloc(1, sizeof *m);
	int err;

	if (!m)
		return NULL;
	err = TRY(reg_mr(rj_pd_handle(pd), addr, length, iova, access, m));
	if (err)
		return rj_fail(m, err);
	m->mr.context = pd->context;
	m->mr.pd = pd;
	m->mr.addr = addr;
	m->mr.length = length;
	m->mr.handle = (uint32_t)m->handle;
	if (rj_check_on && !(access & IBV_ACCESS_ON_DEMAND)) {
		rj_region_add(addr, length, m->handle);
		rj_guard_start();
	}
	return &m->mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return rj_reg(pd, addr, length, (uintptr_t)addr, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return rj_reg(pd, addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return rj_reg(pd, addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return rj_fail(NULL, EOPNOTSUPP);
}

/* A region that reads as zeros and keeps nothing needs a device that leaves out data. */
static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	static int said;

	(void)pd;
	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "ramjet: ibv_alloc_null_mr: these devices have no null regions: register memory instead\n");
	return rj_fail(NULL, EOPNOTSUPP);
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	int err;

	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !pd)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	err = TRY(rereg_mr((struct rj_mr *)mr, flags, pd ? rj_pd_handle(pd) : 0, addr, length, access));
	if (err)
		return IBV_REREG_MR_ERR_CMD;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
		if (rj_check_on) {
			rj_region_remove(((struct rj_mr *)mr)->handle);
			rj_region_add(addr, length, ((struct rj_mr *)mr)->handle);
		}
	}
	return 0;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)
{
	(void)pd;
	if (flags & ~IBV_ADVISE_MR_FLAG_FLUSH || !list || !n || n > INT32_MAX) /* advice is always carried out at once */
		return rj_errno(EINVAL);
	return TRY(advise_mr(advice, list, n));
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	uint64_t handle = HANDLE(rj_mr, mr);
	int err = TRY(dereg_mr(handle));

	if (!err && rj_check_on)
		rj_region_remove(handle);
	return rj_gone(err, mr);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct rj_mw *w = calloc(1, sizeof *w);
	int err;

	if (!w)
		return NULL;
	err = TRY(alloc_mw(rj_pd_handle(pd), type, w));
	if (err)
		return rj_fail(w, err);
	w->mw.context = pd->context;
	w->mw.pd = pd;
	w->mw.handle = (uint32_t)w->handle;
	w->mw.type = type;
	return &w->mw;
}

/* A window that is gone may still be named: the fields that the headers read stay for a while, so
 * that the answer is an error. */
static void *late(void *window)
{
	static void *gone[256];
	static unsigned n;

	return __atomic_exchange_n(&gone[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) % 256], window, __ATOMIC_ACQ_REL);
}

static int dealloc_mw(struct ibv_mw *mw)
{
	int err = TRY(dealloc_mw(HANDLE(rj_mw, mw)));

	if (!err)
		rj_discard(late(mw));
	return err;
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return TRY(bind_mw(HANDLE(rj_qp, qp), (struct rj_mw *)mw, bind));
}

/* The program's allocators, if it has any, are for the memory of queues that driver and device
 * share. There is none here, so they are never called. */
static struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct rj_pd *p;

	if (!attr->pd || attr->comp_mask & ~known)
		return rj_fail(NULL, attr->pd ? EOPNOTSUPP : EINVAL);
	if (!rj_pd_handle(attr->pd))
		return rj_fail(NULL, ENOENT);
	p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->pd.context = p->context = context;
	p->handle = rj_pd_handle(attr->pd);
	p->pd.handle = attr->pd->handle;
	p->parent = attr->pd;
	p->td = attr->td;
	__atomic_add_fetch(&((struct rj_pd *)attr->pd)->children, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&rj_context(context)->domains, 1, __ATOMIC_SEQ_CST);
	if (p->td)
		__atomic_add_fetch(&((struct rj_td *)p->td)->users, 1, __ATOMIC_SEQ_CST);
	return &p->pd;
}

void rj_memory_ops(struct rj_context *c)
{
	struct ibv_context_ops *o = &c->v.context.ops;

	o->alloc_mw = alloc_mw;
	o->bind_mw = bind_mw;
	o->dealloc_mw = dealloc_mw;
	c->v.advise_mr = advise_mr;
	c->v.alloc_null_mr = alloc_null_mr;
	c->v.alloc_td = alloc_td;
	c->v.dealloc_td = dealloc_td;
	c->v.alloc_parent_domain = alloc_parent_domain;
}
