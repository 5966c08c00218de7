/* SPDX-License-Identifier: Apache-2.0 */

/* The log of calls and the checker: beginning and end of each call, and the calls that programs make through tables. The
 * Go half has the log and the checker. */

#define _GNU_SOURCE
#include "ramjet.h"

EXPORT int rj_log_on;
static int logs; /* the environment asks for a log */
static __thread int depth; /* of nested calls: the libraries' own calls are not the program's */

/* Programs with more rights than their user are not logged. */
__attribute__((constructor)) static void at_start(void)
{
	const char *file = secure_getenv("RAMJET_LOG");

	logs = file && *file;
	rj_log_on = logs || rj_check_on;
}

EXPORT void rj_log_enter(struct rj_logging *l, const char *name, const uint64_t *args, int n)
{
	const struct rj_calls *r;
	int err = errno;

	*l = (struct rj_logging){ 0 };
	if (depth++ == 0 && !rj_inside && (r = rj())) {
		if (rj_check_on) {
			uintptr_t pcs[RJ_FRAMES];

			rj_capture();
			rj_returned((uintptr_t)__builtin_frame_address(0));
			l->checked = 1;
			l->refused = GO(r->check_begin(name, args, n, (uintptr_t)&depth, pcs, rj_stack(pcs, RJ_FRAMES), &l->result), 0);
		}
		if (logs)
			l->call = GO(r->log_begin(name, args, n), 0);
	}
	errno = err;
}

EXPORT uint64_t rj_log_refused(struct rj_logging *l)
{
	errno = EINVAL;
	return l->result;
}

EXPORT void rj_log_leave(struct rj_logging *l, uint64_t result)
{
	int err = errno;

	depth--;
	if (l->call && rj_loaded && !rj_inside)
		INSIDE(rj_loaded->log_end(l->call, result, err));
	if (l->checked && rj_loaded && !rj_inside)
		INSIDE(rj_loaded->check_end((uintptr_t)&depth, result));
	errno = err;
}

/* All contexts have the same functions. */
#define OP(result, name, field, parameters, args)           \
	static result (*do_##name) parameters;              \
	static result logged_##name parameters              \
	{                                                   \
		RJ_ENTER(name, args);                       \
		result r_ = RJ_CALL(result, do_##name args); \
		RJ_LEAVE(r_);                               \
		return r_;                                  \
	}
#include "loggedops.h"
#undef OP

/* rj_log_ops puts the functions that log their calls into a context's tables. */
void rj_log_ops(struct rj_context *c)
{
	if (!rj_log_on)
		return;
#define OP(result, name, field, parameters, args) do_##name = c->field; c->field = logged_##name;
#include "loggedops.h"
#undef OP
}

/* rj_wr_complete posts the work requests that ibv_wr_* have built, unless that failed with err. */
int rj_wr_complete(struct ibv_qp *qp, struct ibv_send_wr *wr, int err)
{
	if (__builtin_expect(!rj_log_on, 1))
		return err || !wr ? err : rj_post_send(qp, wr, NULL);
	RJ_ENTER(ibv_wr_complete, (qp, wr));
	if (l_.refused)
		err = (int)rj_log_refused(&l_);
	else if (!err && wr)
		err = rj_post_send(qp, wr, NULL);
	RJ_LEAVE(err);
	return err;
}

static int (*do_start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
static int (*do_next_poll)(struct ibv_cq_ex *cq);
static void (*do_end_poll)(struct ibv_cq_ex *cq);

static int logged_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	RJ_ENTER(ibv_start_poll, (cq, attr));
	int r = RJ_CALL(int, do_start_poll(cq, attr));
	RJ_LEAVE(r);
	return r;
}

static int logged_next_poll(struct ibv_cq_ex *cq)
{
	RJ_ENTER(ibv_next_poll, (cq));
	int r = RJ_CALL(int, do_next_poll(cq));
	RJ_LEAVE(r);
	return r;
}

static void logged_end_poll(struct ibv_cq_ex *cq)
{
	RJ_ENTER(ibv_end_poll, (cq));
	if (!l_.refused)
		do_end_poll(cq);
	RJ_LEAVE(0);
}

/* rj_log_cq is rj_log_ops for an extended completion queue. */
void rj_log_cq(struct ibv_cq_ex *cq)
{
	if (!rj_log_on)
		return;
	do_start_poll = cq->start_poll;
	do_next_poll = cq->next_poll;
	do_end_poll = cq->end_poll;
	cq->start_poll = logged_start_poll;
	cq->next_poll = logged_next_poll;
	cq->end_poll = logged_end_poll;
}
