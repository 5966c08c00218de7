/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses that are good for their link only: programs name the link by sin6_scope_id, and find it in the
 * addresses of ids and sockets. */

#include "kit.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

static struct sockaddr_in6 here;

static int find(void)
{
	struct ifaddrs *all, *i;

	CHECK(!getifaddrs(&all));
	for (i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET6 || !(i->ifa_flags & IFF_UP))
			continue;
		memcpy(&here, i->ifa_addr, sizeof here);
		if (IN6_IS_ADDR_LINKLOCAL(&here.sin6_addr))
			return 1;
	}
	return 0;
}

static struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(channel, &event) && event->event == type);
	return event;
}

static int is_here(struct sockaddr *a)
{
	struct sockaddr_in6 *b = (struct sockaddr_in6 *)a;

	return b->sin6_family == AF_INET6 && !memcmp(&b->sin6_addr, &here.sin6_addr, 16) && b->sin6_scope_id == here.sin6_scope_id;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

/* sockets: both ends of a connection of rsockets know both addresses. */
static void sockets(void)
{
	struct sockaddr_in6 at;
	struct pollfd p;
	socklen_t size = sizeof at;
	int l = rsocket(AF_INET6, SOCK_STREAM, 0), c = rsocket(AF_INET6, SOCK_STREAM, 0), s, i;

	CHECK(l >= 0 && c >= 0 && !rbind(l, (struct sockaddr *)&here, sizeof here));
	CHECK(!rgetsockname(l, (struct sockaddr *)&at, &size) && size == sizeof at && is_here((struct sockaddr *)&at));
	CHECK(!rlisten(l, 1));
	CHECK(!rfcntl(c, F_SETFL, O_NONBLOCK));
	CHECK(rconnect(c, (struct sockaddr *)&at, size) < 0 && errno == EINPROGRESS);
	CHECK(!rgetpeername(c, (struct sockaddr *)&at, &size) && is_here((struct sockaddr *)&at));
	memset(&at, 0, sizeof at);
	CHECK((s = raccept(l, (struct sockaddr *)&at, &size)) >= 0 && is_here((struct sockaddr *)&at));
	p = (struct pollfd){ c, POLLOUT, 0 };
	CHECK(rpoll(&p, 1, -1) == 1 && p.revents == POLLOUT);
	for (i = 0; i < 2; i++) {
		CHECK(!rgetsockname(i ? c : s, (struct sockaddr *)&at, &size) && is_here((struct sockaddr *)&at));
		CHECK(!rgetpeername(i ? c : s, (struct sockaddr *)&at, &size) && is_here((struct sockaddr *)&at));
	}
	CHECK(!rclose(c) && !rclose(s) && !rclose(l));
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1 }, .qp_type = IBV_QPT_RC };
	struct rdma_event_channel *a, *b;
	struct rdma_cm_id *listener, *id, *asked;
	struct sockaddr_in6 elsewhere;
	struct rdma_cm_event *event;
	char text[64], device[128];

	alarm(170);
	if (!find())
		return 0; /* no interface has such an address */
	if (argc == 1) {
		CHECK(inet_ntop(AF_INET6, &here.sin6_addr, text, sizeof text));
		snprintf(device, sizeof device, "roce:%s%%%s", text, if_indextoname(here.sin6_scope_id, (char[IF_NAMESIZE]){ 0 }));
		CHECK(!setenv("RAMJET_DEVICES", device, 1));
		return execl("/proc/self/exe", argv[0], "again", NULL);
	}
	CHECK((a = rdma_create_event_channel()) && (b = rdma_create_event_channel()));
	listener = new_id(a);
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&here) && !rdma_listen(listener, 1));
	CHECK(is_here(rdma_get_local_addr(listener)));

	id = new_id(b);
	elsewhere = *(struct sockaddr_in6 *)rdma_get_local_addr(listener);
	elsewhere.sin6_scope_id += 1000;
	rdma_resolve_addr(id, (struct sockaddr *)&here, (struct sockaddr *)&elsewhere, 1000);
	rdma_ack_cm_event(expect(b, RDMA_CM_EVENT_ADDR_ERROR));
	CHECK(!rdma_destroy_id(id));

	id = new_id(b);
	CHECK(!rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), 1000));
	rdma_ack_cm_event(expect(b, RDMA_CM_EVENT_ADDR_RESOLVED));
	CHECK(is_here(rdma_get_local_addr(id)) && is_here(rdma_get_peer_addr(id)));
	CHECK(!rdma_resolve_route(id, 1000));
	rdma_ack_cm_event(expect(b, RDMA_CM_EVENT_ROUTE_RESOLVED));
	CHECK(!rdma_create_qp(id, NULL, &attr) && !rdma_connect(id, &(struct rdma_conn_param){ .retry_count = 7 }));
	event = expect(a, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(is_here(rdma_get_local_addr(event->id)) && is_here(rdma_get_peer_addr(event->id)));
	asked = event->id;
	rdma_ack_cm_event(event);
	CHECK(!rdma_reject(asked, NULL, 0) && !rdma_destroy_id(asked));
	rdma_ack_cm_event(expect(b, RDMA_CM_EVENT_REJECTED));
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
	sockets();
	return 0;
}
