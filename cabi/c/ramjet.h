/* SPDX-License-Identifier: Apache-2.0 */

/* The declarations that the files of libibverbs.so.1 and librdmacm.so.1 share. Each file calls only files that build.sh
 * names before it. */
#ifndef RAMJET_H
#define RAMJET_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "log.h"
#include "regions.h"
#include "stack.h"

/* ASK makes a call and returns its result. TRY is for calls that return an errno, which it also sets. */
#define ASK(call) ({ const struct rj_calls *r_ = rj(); r_ ? GO(r_->call, EDEADLK) : EIO; })
#define TRY(call) rj_errno(ASK(call))

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
 * that is not the same, the program has changed it, or memory is taken for an object that is none: it
 * is the handle of nothing then. */
#define HANDLE(type, p) ({ struct type *p_ = (struct type *)(p); (uint32_t)p_->handle == (p)->handle ? p_->handle : 0; })
#define HIDDEN_HANDLE(type, p) (((struct type *)(p))->handle) /* of objects without such a field */

/* rj_pd_handle is that of a protection domain, whose context must be its own, too. */
static inline uint64_t rj_pd_handle(struct ibv_pd *pd)
{
	return ((struct rj_pd *)pd)->context == pd->context ? HANDLE(rj_pd, pd) : 0;
}

/* rj_fail frees an object that could not be created and sets errno. */
static inline void *rj_fail(void *p, int err)
{
	free(p);
	errno = err;
	return NULL;
}

/* rj_gone frees an object unless Go failed to destroy it with err. */
static inline int rj_gone(int err, void *p)
{
	if (!err)
		rj_discard(p);
	return err;
}

/* rj_failed converts an errno to the convention of calls that return -1 and set errno. */
static inline int rj_failed(int err)
{
	return rj_errno(err) ? -1 : 0;
}

/* The functions that are logged have other names in the libraries than for programs, see logged.h. */
#ifndef RJ_UNNAMED
#undef LOGGED
#undef LOGGED_VOID
#undef LOGGED_NONE
#define LOGGED(result, name, parameters, args) extern result (name) parameters __asm__("rj_do_" #name);
#define LOGGED_VOID(name, parameters, args) LOGGED(void, name, parameters, args)
#define LOGGED_NONE(result, name) LOGGED(result, name, (void), ())
#ifdef RJ_CM
#include "cmlogged.h"
#else
#include "logged.h"
#endif
#endif

/* events.c */
void rj_wait_events(void *object, pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *done, uint32_t *reported);

/* data.c */
int rj_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* logops.c */
void rj_log_ops(struct rj_context *c);
void rj_log_cq(struct ibv_cq_ex *cq);
int rj_wr_complete(struct ibv_qp *qp, struct ibv_send_wr *wr, int err);

/* cqpoll.c */
void rj_fill_cq(struct rj_cq *cq, uint64_t wc_flags);

/* builder.c */
int rj_fill_qp(struct rj_qp *qp, uint64_t ops);
void rj_free_builder(struct rj_qp *qp);

/* memory.c */
struct ibv_mr *rj_reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access);

/* qp.c */
struct ibv_qp *rj_create_cm_qp(struct ibv_context *context, uint64_t id, struct ibv_qp_init_attr_ex *attr);

/* The headers call some functions through tables. Each file fills in its own. */
void rj_data_ops(struct rj_context *c);
void rj_query_ops(struct rj_context *c);
void rj_memory_ops(struct rj_context *c);
void rj_cq_ops(struct rj_context *c);
void rj_srq_ops(struct rj_context *c);
void rj_qp_ops(struct rj_context *c);

#endif
