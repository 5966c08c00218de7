/* SPDX-License-Identifier: Apache-2.0 */

/* The data path: posting, polling, notification. A call enters Go once, however long its list. */

#include "ramjet.h"

int rj_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return TRY(post_send(HANDLE(rj_qp, qp), wr, bad));
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return TRY(post_recv(HANDLE(rj_qp, qp), wr, bad));
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return TRY(post_srq_recv(HANDLE(rj_srq, srq), wr, bad));
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	const struct rj_calls *r = rj();

	return r ? GO(r->poll(HANDLE(rj_cq, cq), room, wc), -EDEADLK) : -1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return TRY(req_notify(HANDLE(rj_cq, cq), solicited_only));
}

void rj_data_ops(struct rj_context *c)
{
	struct ibv_context_ops *o = &c->v.context.ops;

	o->post_send = rj_post_send;
	o->post_recv = post_recv;
	o->post_srq_recv = post_srq_recv;
	o->poll_cq = poll_cq;
	o->req_notify_cq = req_notify_cq;
}
