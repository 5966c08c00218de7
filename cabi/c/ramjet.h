/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of the C libraries share. */
#ifndef RAMJET_H
#define RAMJET_H

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "cmobjects.h"

struct rj_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#include "calls.h"
#include "cmcalls.h"
#include "rscalls.h"
#undef CALL
};

extern const struct rj_calls *rj_loaded; /* NULL: not in this process */
const struct rj_calls *rj_load(void);
void rj_apart(void (*f)(const struct rj_calls *), int seconds); /* for what is said at exit */

/* rj returns the Go library's functions, loaded when first needed. NULL with errno set if it
 * cannot be. */
static inline const struct rj_calls *rj(void)
{
	const struct rj_calls *c = __atomic_load_n(&rj_loaded, __ATOMIC_ACQUIRE);
	return __builtin_expect(c != NULL, 1) ? c : rj_load();
}

/* ASK is the result of a call, and TRY that of one whose result is an errno, which errno has too. */
#define ASK(call) ({ const struct rj_calls *r_ = rj(); r_ ? r_->call : EIO; })
#define TRY(call) rj_errno(ASK(call))

#define EXPORT __attribute__((visibility("default")))

static inline int rj_errno(int err)
{
	if (__builtin_expect(err, 0))
		errno = err;
	return err;
}

static inline struct rj_context *rj_context(struct ibv_context *c)
{
	return (struct rj_context *)((char *)c - offsetof(struct rj_context, v.context));
}

/* HANDLE is the handle of an object that has one of its own in the struct that programs see. If
 * that is not the same, somebody has changed it, or memory is taken for an object that is none: it
 * is the handle of nothing then. */
#define HANDLE(type, p) ({ struct type *p_ = (struct type *)(p); (uint32_t)p_->handle == (p)->handle ? p_->handle : 0; })
#define HIDDEN_HANDLE(type, p) (((struct type *)(p))->handle) /* of the others */

/* rj_pd_handle is that of a protection domain, whose context must be its own, too. */
static inline uint64_t rj_pd_handle(struct ibv_pd *pd)
{
	return ((struct rj_pd *)pd)->context == pd->context ? HANDLE(rj_pd, pd) : 0;
}

/* fail sets errno and frees what could not become an object. */
static inline void *rj_fail(void *p, int err)
{
	free(p);
	errno = err;
	return NULL;
}

/* rj_gone frees what Go has let go; err, of that, is an errno. */
static inline int rj_gone(int err, void *p)
{
	if (!err)
		free(p);
	return err;
}

/* rj_failed tells of an errno as those calls do that return -1. */
static inline int rj_failed(int err)
{
	return rj_errno(err) ? -1 : 0;
}

void rj_fill_context(struct rj_context *c); /* the operation tables */
void rj_wait_events(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *done, uint32_t *reported);

/* Operations that the headers call through tables. */
struct ibv_mr *rj_reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
int rj_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rj_fill_qp(struct rj_qp *qp, uint64_t ops);
void rj_free_builder(struct rj_qp *qp);
void rj_fill_cq(struct rj_cq *cq, uint64_t wc_flags);
struct ibv_cq_ex *rj_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_srq *rj_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
struct ibv_qp *rj_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *rj_create_cm_qp(struct ibv_context *context, uint64_t id, struct ibv_qp_init_attr_ex *attr);
int rj_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n);
struct ibv_mw *rj_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int rj_dealloc_mw(struct ibv_mw *mw);
int rj_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
struct ibv_td *rj_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int rj_dealloc_td(struct ibv_td *td);
struct ibv_pd *rj_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);

#endif
