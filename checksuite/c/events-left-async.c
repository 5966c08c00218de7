/* SPDX-License-Identifier: Apache-2.0 */

/* The last-receive event of a queue pair with a shared receive queue is never read. */

#include "suite.h"

int main(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;
	struct ibv_srq *srq;
	struct pair p;

	open_device();
	CHECK((srq = ibv_create_srq(pd, &attr)));
	p = pair(.srq = srq);
	CHECK(!ibv_modify_qp(p.b->qp, &error, IBV_QP_STATE));
	if (MISTAKE)
		return 0;
	do {
		CHECK(!ibv_get_async_event(context, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_srq(srq));
	return finish();
}
