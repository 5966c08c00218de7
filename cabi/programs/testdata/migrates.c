/* SPDX-License-Identifier: Apache-2.0 */

/* An id moves to another event channel while its events come: whoever has not been given them on the old
 * channel gets them on the new one, and a listener's requests with all that follows. */

#include "kit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#define ROUNDS 300

static struct rdma_event_channel *channels[2];
static struct rdma_addrinfo *at;
static int now; /* the channel on which events are to come */

/* pass lets some time pass, sometimes as much as an event takes. */
static void pass(void)
{
	volatile int i;

	for (i = rand() % 100000; i > 0; i--)
		;
}

static struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		fprintf(stderr, "%s, status %d, not %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
	CHECK(event->event == type);
	return event;
}

static void leave_none(struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	CHECK(!poll(&p, 1, 0));
}

static void move(struct rdma_cm_id *id)
{
	pass();
	CHECK(!rdma_migrate_id(id, channels[!now]) && id->channel == channels[!now]);
	leave_none(channels[now]);
	now = !now;
}

static void resolving(void)
{
	struct rdma_cm_id *id;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		CHECK(!rdma_create_id(channels[now], &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, at->ai_dst_addr, 1000));
		move(id);
		rdma_ack_cm_event(expect(channels[now], RDMA_CM_EVENT_ADDR_RESOLVED));
		CHECK(!rdma_resolve_route(id, 1000));
		move(id);
		rdma_ack_cm_event(expect(channels[now], RDMA_CM_EVENT_ROUTE_RESOLVED));
		leave_none(channels[!now]);
		CHECK(!rdma_destroy_id(id));
	}
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1 }, .qp_type = IBV_QPT_RC };

	CHECK(!rdma_create_qp(id, NULL, &attr));
}

static struct rdma_cm_id *new_client(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), 1000));
	rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK(!rdma_resolve_route(id, 1000));
	rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	add_qp(id);
	return id;
}

static void requests(void)
{
	struct rdma_event_channel *clients = rdma_create_event_channel();
	struct rdma_conn_param param = { .private_data_len = 1 };
	struct rdma_cm_id *listener, *id[2], *taken[2];
	struct rdma_cm_event *event;
	int i, n;

	CHECK(clients && !rdma_create_id(channels[now], &listener, NULL, RDMA_PS_TCP));
	((struct sockaddr_in *)at->ai_dst_addr)->sin_port = 0;
	CHECK(!rdma_bind_addr(listener, at->ai_dst_addr) && !rdma_listen(listener, 8));
	for (i = 0; i < ROUNDS / 10; i++) {
		for (n = 0; n < 2; n++) {
			char number = n;

			id[n] = new_client(clients, listener);
			param.private_data = &number;
			CHECK(!rdma_connect(id[n], &param));
			if (i % 3)
				move(listener);
			if (n == 0) { /* the second may overtake the first on its way */
				struct pollfd p = { .fd = channels[now]->fd, .events = POLLIN };

				CHECK(poll(&p, 1, -1) == 1);
			}
		}
		move(listener);
		for (n = 0; n < 2; n++) { /* in the order in which they came */
			event = expect(channels[now], RDMA_CM_EVENT_CONNECT_REQUEST);
			taken[n] = event->id;
			CHECK(event->listen_id == listener && taken[n]->channel == channels[now]);
			CHECK(*(char *)event->param.conn.private_data == n);
			rdma_ack_cm_event(event);
		}
		for (n = 0; n < 2; n++) {
			add_qp(taken[n]);
			CHECK(!rdma_accept(taken[n], NULL));
			rdma_ack_cm_event(expect(clients, RDMA_CM_EVENT_ESTABLISHED));
			event = expect(channels[now], RDMA_CM_EVENT_ESTABLISHED);
			CHECK(event->id == taken[n]);
			rdma_ack_cm_event(event);
			rdma_destroy_qp(taken[n]);
			CHECK(!rdma_destroy_id(taken[n]));
			rdma_ack_cm_event(expect(clients, RDMA_CM_EVENT_DISCONNECTED));
			rdma_destroy_qp(id[n]);
			CHECK(!rdma_destroy_id(id[n]));
		}
	}
	leave_none(channels[!now]);
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(clients);
}

int main(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_id *alone;

	alarm(170);
	CHECK((channels[0] = rdma_create_event_channel()) && (channels[1] = rdma_create_event_channel()));
	CHECK(!rdma_getaddrinfo(strchr(getenv("RAMJET_DEVICES"), ':') + 1, "7", &hints, &at));
	resolving();
	requests();
	CHECK(!rdma_create_id(NULL, &alone, NULL, RDMA_PS_TCP));
	CHECK(rdma_migrate_id(alone, NULL) == -1 && errno == EINVAL); /* it has a channel to itself */
	CHECK(!rdma_migrate_id(alone, channels[0]) && !rdma_destroy_id(alone));
	rdma_freeaddrinfo(at);
	rdma_destroy_event_channel(channels[0]);
	rdma_destroy_event_channel(channels[1]);
	return 0;
}
