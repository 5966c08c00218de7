/* SPDX-License-Identifier: Apache-2.0 */

/* The work request builder: from ibv_wr_start to ibv_wr_complete. */

#include "ramjet.h"

/* Work requests, put together call by call and posted as one list: all of them or none. While
 * the arrays may still move, a request's list is an index and its inline data an offset. */

#define MAX_LIST 1024 /* more elements than any queue pair takes */

struct rj_builder {
	pthread_mutex_t lock; /* from ibv_wr_start to ibv_wr_complete or ibv_wr_abort */
	struct ibv_send_wr *wrs;
	struct ibv_sge *sges;
	char *data;
	size_t nwrs, nsges, ndata;
	size_t wrs_room, sges_room, data_room;
	int err;
};

static int grow(void **p, size_t *room, size_t need, size_t size)
{
	size_t n = *room ? *room : 64;
	void *bigger;

	if (need <= *room)
		return 0;
	while (n < need)
		n *= 2;
	bigger = realloc(*p, n * size);
	if (!bigger)
		return ENOMEM;
	*p = bigger;
	*room = n;
	return 0;
}

static struct rj_builder *of(struct ibv_qp_ex *qp) { return ((struct rj_qp *)qp)->builder; }

static struct ibv_send_wr *last(struct rj_builder *b) { return b->nwrs ? &b->wrs[b->nwrs - 1] : NULL; }

/* add begins a work request. It returns NULL if that failed; ibv_wr_complete reports the error. */
static struct ibv_send_wr *add(struct ibv_qp_ex *qp, enum ibv_wr_opcode op)
{
	struct rj_builder *b = of(qp);
	struct ibv_send_wr *w;

	if (!b->err)
		b->err = grow((void **)&b->wrs, &b->wrs_room, b->nwrs + 1, sizeof *b->wrs);
	if (b->err)
		return NULL;
	w = &b->wrs[b->nwrs++];
	memset(w, 0, sizeof *w);
	w->wr_id = qp->wr_id;
	w->opcode = op;
	w->send_flags = qp->wr_flags & ~IBV_SEND_INLINE;
	return w;
}

static void add_rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct ibv_send_wr *w = add(qp, op);

	if (!w)
		return;
	w->wr.rdma.remote_addr = addr;
	w->wr.rdma.rkey = rkey;
	w->imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr) { add_rdma(qp, IBV_WR_RDMA_READ, rkey, addr, 0); }
static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr) { add_rdma(qp, IBV_WR_RDMA_WRITE, rkey, addr, 0); }
static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
	add_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_send(struct ibv_qp_ex *qp) { add(qp, IBV_WR_SEND); }

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	struct ibv_send_wr *w = add(qp, IBV_WR_SEND_WITH_IMM);

	if (w)
		w->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	struct ibv_send_wr *w = add(qp, IBV_WR_SEND_WITH_INV);

	if (w)
		w->invalidate_rkey = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	struct ibv_send_wr *w = add(qp, IBV_WR_LOCAL_INV);

	if (w)
		w->invalidate_rkey = rkey;
}

static void add_atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint64_t compare_add,
		       uint64_t swap)
{
	struct ibv_send_wr *w = add(qp, op);

	if (!w)
		return;
	w->wr.atomic.remote_addr = addr;
	w->wr.atomic.rkey = rkey;
	w->wr.atomic.compare_add = compare_add;
	w->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	add_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t value)
{
	add_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, value, 0);
}

/* FLUSH came with rdma-core 47. Its function follows that of the atomic write in struct ibv_qp_ex. */
enum { QP_EX_WITH_FLUSH = 1 << 11, WR_FLUSH = 14, FLUSH_GLOBAL = 1 << 0, FLUSH_PERSISTENT = 1 << 1, FLUSH_RANGE = 0, FLUSH_MR };
typedef void (*flush_function)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level);

static flush_function *flush_of(struct ibv_qp_ex *qp)
{
	return (flush_function *)((char *)qp + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof qp->wr_atomic_write);
}

/* struct ibv_send_wr has no fields for FLUSH: its arguments travel to Go in the fields of atomics. */
static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level)
{
	struct rj_builder *b = of(qp);

	if (!b->err && (!type || type & ~(FLUSH_GLOBAL | FLUSH_PERSISTENT) || level > FLUSH_MR || length > UINT32_MAX))
		b->err = EINVAL;
	add_atomic(qp, (enum ibv_wr_opcode)WR_FLUSH, rkey, addr, length, (uint64_t)level << 8 | type);
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *w = add(qp, IBV_WR_BIND_MW);

	if (!w)
		return;
	w->bind_mw.mw = mw;
	w->bind_mw.rkey = rkey;
	w->bind_mw.bind_info = *info;
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *list)
{
	struct rj_builder *b = of(qp);
	struct ibv_send_wr *w = last(b);

	if (b->err || !w)
		return;
	if (n > MAX_LIST || (n && !list)) {
		b->err = EINVAL;
		return;
	}
	b->err = grow((void **)&b->sges, &b->sges_room, b->nsges + n, sizeof *b->sges);
	if (b->err)
		return;
	w->sg_list = (struct ibv_sge *)b->nsges;
	w->num_sge = (int)n;
	memcpy(b->sges + b->nsges, list, n * sizeof *list);
	b->nsges += n;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge s = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(qp, length ? 1 : 0, &s);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_data_buf *list)
{
	struct rj_builder *b = of(qp);
	struct ibv_sge s = { .addr = b->ndata };
	size_t i, total = 0;

	if (!b->err && (n > MAX_LIST || (n && !list)))
		b->err = EINVAL;
	for (i = 0; !b->err && i < n; i++) {
		total += list[i].length;
		if (list[i].length > UINT32_MAX || total > UINT32_MAX || (list[i].length && !list[i].addr))
			b->err = EINVAL;
	}
	if (!b->err)
		b->err = grow((void **)&b->data, &b->data_room, b->ndata + total, 1);
	if (b->err || !last(b))
		return;
	for (i = 0; i < n; i++) {
		memcpy(b->data + b->ndata, list[i].addr, list[i].length);
		b->ndata += list[i].length;
	}
	s.length = (uint32_t)total;
	last(b)->send_flags |= IBV_SEND_INLINE;
	wr_set_sge_list(qp, 1, &s);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf d = { addr, length };

	wr_set_inline_data_list(qp, 1, &d);
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *value)
{
	add_rdma(qp, IBV_WR_ATOMIC_WRITE, rkey, addr, 0);
	wr_set_inline_data(qp, (void *)value, 8);
}

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *w = last(of(qp));

	if (!w)
		return;
	w->wr.ud.ah = ah;
	w->wr.ud.remote_qpn = qpn;
	w->wr.ud.remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t srqn)
{
	if (last(of(qp)))
		last(of(qp))->qp_type.xrc.remote_srqn = srqn;
}

static void wr_start(struct ibv_qp_ex *qp)
{
	struct rj_builder *b = of(qp);

	if (__builtin_expect(rj_check_on, 0)) {
		RJ_ENTER(ibv_wr_start, (qp));
		RJ_LEAVE(0);
	}
	pthread_mutex_lock(&b->lock);
	b->nwrs = b->nsges = b->ndata = 0;
	b->err = 0;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct rj_builder *b = of(qp);
	int err = b->err;
	size_t i;
	int j;

	for (i = 0; !err && i < b->nwrs; i++) {
		struct ibv_send_wr *w = &b->wrs[i];

		w->sg_list = b->sges + (size_t)w->sg_list;
		for (j = 0; w->send_flags & IBV_SEND_INLINE && j < w->num_sge; j++)
			w->sg_list[j].addr += (uintptr_t)b->data;
		w->next = i + 1 < b->nwrs ? w + 1 : NULL;
	}
	err = rj_wr_complete(&qp->qp_base, b->nwrs ? b->wrs : NULL, err);
	pthread_mutex_unlock(&b->lock);
	return rj_errno(err);
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	if (__builtin_expect(rj_check_on, 0)) {
		RJ_ENTER(ibv_wr_abort, (qp));
		RJ_LEAVE(0);
	}
	pthread_mutex_unlock(&of(qp)->lock);
}

/* Operations by type of queue pair. */
static uint64_t ops_of(const struct ibv_qp *qp)
{
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW |
			    IBV_QP_EX_WITH_LOCAL_INV;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;

	switch (qp->qp_type) {
	case IBV_QPT_UD: return ud;
	case IBV_QPT_UC: return uc;
	case IBV_QPT_XRC_SEND: return rc;
	case IBV_QPT_RC: /* iWARP has no messages for these two */
		return qp->context->device->transport_type == IBV_TRANSPORT_IWARP ? rc : rc | IBV_QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH;
	default: return 0;
	}
}

int rj_fill_qp(struct rj_qp *q, uint64_t ops)
{
	struct ibv_qp_ex *x = &q->qp;

	if (ops & ~ops_of(&q->qp.qp_base))
		return EOPNOTSUPP;
	q->builder = calloc(1, sizeof *q->builder);
	if (!q->builder)
		return ENOMEM;
	pthread_mutex_init(&q->builder->lock, NULL);
#define OP(flag, function) if (ops & IBV_QP_EX_WITH_##flag) x->function = function
	OP(RDMA_WRITE, wr_rdma_write);
	OP(RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
	OP(SEND, wr_send);
	OP(SEND_WITH_IMM, wr_send_imm);
	OP(SEND_WITH_INV, wr_send_inv);
	OP(RDMA_READ, wr_rdma_read);
	OP(ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
	OP(ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
	OP(ATOMIC_WRITE, wr_atomic_write);
	OP(LOCAL_INV, wr_local_inv);
	OP(BIND_MW, wr_bind_mw);
#undef OP
	if (ops & QP_EX_WITH_FLUSH)
		*flush_of(x) = wr_flush;
	x->wr_set_sge = wr_set_sge;
	x->wr_set_sge_list = wr_set_sge_list;
	x->wr_set_inline_data = wr_set_inline_data;
	x->wr_set_inline_data_list = wr_set_inline_data_list;
	x->wr_set_ud_addr = wr_set_ud_addr;
	x->wr_set_xrc_srqn = wr_set_xrc_srqn;
	x->wr_start = wr_start;
	x->wr_complete = wr_complete;
	x->wr_abort = wr_abort;
	return 0;
}

void rj_free_builder(struct rj_qp *q)
{
	if (!q->builder)
		return;
	rj_discard(q->builder->wrs);
	rj_discard(q->builder->sges);
	rj_discard(q->builder->data);
	rj_discard(q->builder);
}
