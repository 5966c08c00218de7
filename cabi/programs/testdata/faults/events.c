/* SPDX-License-Identifier: Apache-2.0 */

/* Faults inject an asynchronous event with each of three work requests: of the port, of the second queue pair,
 * and of the device. */

#include "../kit.h"

#include <poll.h>

/* expect takes the next event, which must be of this type. */
static struct ibv_async_event expect(enum ibv_event_type type)
{
	struct pollfd p = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(poll(&p, 1, -1) == 1 && !ibv_get_async_event(context, &event));
	if (event.event_type != type) {
		fprintf(stderr, "%s, not %s\n", ibv_event_type_str(event.event_type), ibv_event_type_str(type));
		exit(1);
	}
	ibv_ack_async_event(&event);
	return event;
}

static enum ibv_qp_state state(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

int main(void)
{
	struct pollfd p = { .events = POLLIN };
	struct ibv_mr *mr;
	struct side a, b;

	alarm(170);
	open_device();
	p.fd = context->async_fd;
	mr = new_region(64);
	create_pair(&a, &b);
	CHECK(!poll(&p, 1, 0));

	post(&a, IBV_WR_RDMA_WRITE, mr, 8, mr);
	CHECK(expect(IBV_EVENT_PORT_ERR).element.port_num == 1);
	CHECK(next(&a).status == IBV_WC_SUCCESS && state(&a) == IBV_QPS_RTS);

	post(&b, IBV_WR_RDMA_WRITE, mr, 8, mr);
	CHECK(expect(IBV_EVENT_QP_FATAL).element.qp == b.qp);
	CHECK(state(&b) == IBV_QPS_ERR && state(&a) == IBV_QPS_RTS);

	post(&a, IBV_WR_RDMA_WRITE, mr, 8, mr);
	expect(IBV_EVENT_DEVICE_FATAL);
	errno = 0;
	CHECK(!ibv_alloc_pd(context) && errno == EIO);
	CHECK(!poll(&p, 1, 0));

	destroy(&a);
	destroy(&b);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
