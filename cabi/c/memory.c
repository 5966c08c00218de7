/* SPDX-License-Identifier: Apache-2.0 */

/* Protection domains, regions, windows, address handles. */

#include "ramjet.h"

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
	free(p);
	return 0;
}

struct ibv_td *rj_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
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

int rj_dealloc_td(struct ibv_td *td)
{
	if (__atomic_load_n(&((struct rj_td *)td)->users, __ATOMIC_SEQ_CST))
		return rj_errno(EBUSY);
	__atomic_sub_fetch(&rj_context(td->context)->domains, 1, __ATOMIC_SEQ_CST);
	free(td);
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
	}
	return 0;
}

int rj_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)
{
	(void)pd;
	if (flags & ~IBV_ADVISE_MR_FLAG_FLUSH || !list || !n || n > INT32_MAX) /* it is always done at once */
		return rj_errno(EINVAL);
	return TRY(advise_mr(advice, list, n));
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return rj_gone(TRY(dereg_mr(HANDLE(rj_mr, mr))), mr);
}

struct ibv_mw *rj_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
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

/* A window that is gone may still be named: what the headers look at in it stays for a while, so
 * that the answer is an error. */
static void *late(void *window)
{
	static void *gone[256];
	static unsigned n;

	return __atomic_exchange_n(&gone[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) % 256], window, __ATOMIC_ACQ_REL);
}

int rj_dealloc_mw(struct ibv_mw *mw)
{
	int err = TRY(dealloc_mw(HANDLE(rj_mw, mw)));

	if (!err)
		free(late(mw));
	return err;
}

int rj_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return TRY(bind_mw(HANDLE(rj_qp, qp), (struct rj_mw *)mw, bind));
}

/* The program's allocators, if it has any, are for the memory of queues that driver and device
 * share. There is none here, so they are never called. */
struct ibv_pd *rj_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
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

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct rj_ah *a = calloc(1, sizeof *a);
	int err;

	if (!a)
		return NULL;
	err = TRY(create_ah(rj_pd_handle(pd), attr, &a->handle));
	if (err)
		return rj_fail(a, err);
	a->ah.context = pd->context;
	a->ah.pd = pd;
	a->ah.handle = (uint32_t)a->handle;
	return &a->ah;
}

/* A RoCEv2 packet over IPv4 leaves its IP header in the last 20 of the 40 bytes before a
 * datagram (IBTA annex A17.4.5.1). */
static void sender(const struct ibv_grh *grh, struct ibv_global_route *route, union ibv_gid *mine)
{
	const uint8_t *b = (const uint8_t *)grh;
	uint32_t word;

	if (b[20] >> 4 == 4 && b[0] >> 4 != 6) {
		static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

		memcpy(route->dgid.raw, prefix, 12);
		memcpy(route->dgid.raw + 12, b + 32, 4);
		memcpy(mine->raw, prefix, 12);
		memcpy(mine->raw + 12, b + 36, 4);
		route->traffic_class = b[21];
		route->hop_limit = b[28];
		return;
	}
	memcpy(&word, b, 4);
	word = __builtin_bswap32(word);
	route->dgid = grh->sgid;
	*mine = grh->dgid;
	route->traffic_class = word >> 20;
	route->flow_label = word & 0xfffff;
	route->hop_limit = grh->hop_limit;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	union ibv_gid mine, gid;
	int i;

	memset(attr, 0, sizeof *attr);
	attr->dlid = wc->slid;
	attr->sl = 0; /* wc->sl says of which kind the packet was */
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	sender(grh, &attr->grh, &mine);
	attr->grh.hop_limit = 255;
	for (i = 0; !ibv_query_gid(context, port, i, &gid); i++)
		if (!memcmp(&gid, &mine, sizeof gid))
			attr->grh.sgid_index = i;
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	return rj_gone(TRY(destroy_ah(HANDLE(rj_ah, ah))), ah);
}
