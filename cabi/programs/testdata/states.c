/* SPDX-License-Identifier: Apache-2.0 */

/* A queue pair's struct says the state to which the connection manager has brought it. */

#include "kit.h"

#include <rdma/rdma_cma.h>

/* STATE compares the struct with what is expected, and then with what the device says. */
#define STATE(id, s) do { struct ibv_qp_attr a_; struct ibv_qp_init_attr i_; enum ibv_qp_state was_ = (id)->qp->state; \
	CHECK(!ibv_query_qp((id)->qp, &a_, IBV_QP_STATE, &i_)); \
	if (was_ != (s) || a_.qp_state != (s)) { \
		fprintf(stderr, "%s:%d: state %d, of the device %d, not %d\n", __FILE__, __LINE__, was_, a_.qp_state, s); exit(1); } } while (0)

static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type) {
		fprintf(stderr, "%s, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
		exit(1);
	}
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1 }, .qp_type = IBV_QPT_RC };

	CHECK(!rdma_create_qp(id, NULL, &attr));
	STATE(id, IBV_QPS_INIT);
}

static struct rdma_cm_id *client(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), 5000));
	CHECK(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id && !rdma_resolve_route(id, 5000));
	CHECK(expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
	add_qp(id);
	return id;
}

static void discard(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

int main(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel(), *two = rdma_create_event_channel();
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP }, *at;
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener, *from, *to;

	alarm(170);
	CHECK(one && two && !rdma_getaddrinfo(strchr(getenv("RAMJET_DEVICES"), ':') + 1, "0", &hints, &at));
	CHECK(!rdma_create_id(one, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, at->ai_src_addr) && !rdma_listen(listener, 4));

	from = client(two, listener);
	CHECK(!rdma_connect(from, &param));
	to = expect(one, RDMA_CM_EVENT_CONNECT_REQUEST);
	add_qp(to);
	CHECK(!rdma_accept(to, &param));
	STATE(to, IBV_QPS_RTS);
	CHECK(expect(two, RDMA_CM_EVENT_ESTABLISHED) == from);
	STATE(from, IBV_QPS_RTS);
	CHECK(expect(one, RDMA_CM_EVENT_ESTABLISHED) == to);
	STATE(to, IBV_QPS_RTS);
	CHECK(!rdma_disconnect(from));
	STATE(from, IBV_QPS_ERR);
	CHECK(expect(one, RDMA_CM_EVENT_DISCONNECTED) == to);
	CHECK(!rdma_disconnect(to));
	STATE(to, IBV_QPS_ERR);
	CHECK(expect(two, RDMA_CM_EVENT_DISCONNECTED) == from);
	discard(from);
	discard(to);

	from = client(two, listener);
	CHECK(!rdma_connect(from, &param));
	to = expect(one, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!rdma_reject(to, NULL, 0));
	CHECK(expect(two, RDMA_CM_EVENT_REJECTED) == from);
	STATE(from, IBV_QPS_ERR); /* as librdmacm has it */
	discard(from);
	discard(to);
	discard(listener);
	rdma_freeaddrinfo(at);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
	return 0;
}
