/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses that are no device's: no address in particular, loopback's, and those to which no device leads. */

#include "kit.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

static struct rdma_event_channel *channel;
static char here[64]; /* the address of the test's device */

static struct sockaddr *address(const char *text, int port)
{
	static struct sockaddr_storage all[4];
	static int i;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&all[i++ % 4];
	struct sockaddr_in *four = (struct sockaddr_in *)six;

	memset(six, 0, sizeof *all);
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
	} else {
		CHECK(inet_pton(AF_INET6, text, &six->sin6_addr) == 1);
		six->sin6_family = AF_INET6;
	}
	four->sin_port = htons(port); /* where that of IPv6 is */
	return (struct sockaddr *)six;
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

static void expect(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type || event->status != status)
		fprintf(stderr, "%s, status %d, not %s, %d\n", rdma_event_str(event->event), event->status, rdma_event_str(type), status);
	CHECK(event->event == type && event->status == status);
	CHECK(!rdma_ack_cm_event(event));
}

/* bound binds an id to an address that stands for no one device. */
static struct rdma_cm_id *bound(const char *text)
{
	struct rdma_cm_id *id = new_id();
	struct sockaddr *a = address(text, 0), *b = rdma_get_local_addr(id);

	CHECK(!rdma_bind_addr(id, a));
	CHECK(!id->verbs && rdma_get_src_port(id) && b->sa_family == a->sa_family);
	CHECK(a->sa_family != AF_INET || ((struct sockaddr_in *)a)->sin_addr.s_addr == ((struct sockaddr_in *)b)->sin_addr.s_addr);
	CHECK(rdma_bind_addr(id, a) == -1 && errno == EINVAL);
	return id;
}

/* reaches says whether somebody listens at an address and the port of a listener. */
static int reaches(const char *text, struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_id *id = new_id();
	struct rdma_cm_event *event;
	int found;

	CHECK(!rdma_resolve_addr(id, NULL, address(text, ntohs(rdma_get_src_port(listener))), 1000));
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, 1000));
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(!rdma_connect(id, &param));
	CHECK(!rdma_get_cm_event(channel, &event));
	found = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	CHECK(found ? event->listen_id == listener : event->event == RDMA_CM_EVENT_REJECTED);
	if (found) {
		struct rdma_cm_id *new = event->id;

		CHECK(!rdma_ack_cm_event(event) && !rdma_destroy_id(new));
	} else {
		CHECK(!rdma_ack_cm_event(event));
	}
	CHECK(!rdma_destroy_id(id));
	return found;
}

static void loopback(void)
{
	struct rdma_cm_id *id = bound("127.0.0.1");

	CHECK(!rdma_listen(id, 1) && reaches(here, id));
	CHECK(!rdma_destroy_id(id));
	id = bound("::1"); /* of which there is no device */
	CHECK(rdma_listen(id, 1) == -1 && errno == ENODEV);
	CHECK(!rdma_destroy_id(id));
	id = bound("::1");
	CHECK(!rdma_resolve_addr(id, NULL, address(here, 7), 1000));
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(id->verbs && !rdma_destroy_id(id));
	id = new_id();
	CHECK(rdma_bind_addr(id, address("192.0.2.77", 0)) == -1 && errno == ENODEV);
	CHECK(!rdma_destroy_id(id));
}

static void any(void)
{
	struct rdma_cm_id *id = bound("0.0.0.0");

	CHECK(!rdma_listen(id, 1) && reaches(here, id) && !rdma_destroy_id(id));
	id = bound("::");
	CHECK(!rdma_listen(id, 1) && reaches(here, id) && !rdma_destroy_id(id));
}

static void no_way(void)
{
	struct rdma_cm_id *id = new_id();

	CHECK(!rdma_resolve_addr(id, NULL, address("::1", 7), 1000));
	expect(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	CHECK(!rdma_resolve_addr(id, NULL, address("0.0.0.0", 7), 1000)); /* this host, so any device */
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(rdma_resolve_addr(id, NULL, address("::1", 7), 1000) == -1 && errno == ENODEV);
	CHECK(!rdma_destroy_id(id));
}

/* The way to an address can be asked for without a port, but nobody be connected to. */
static void no_port(void)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_id *id = new_id();

	CHECK(!rdma_resolve_addr(id, NULL, address(here, 0), 1000));
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(id->verbs && !rdma_resolve_route(id, 1000));
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(rdma_connect(id, &param) == -1 && errno == EINVAL);
	CHECK(!rdma_destroy_id(id));
}

/* Programs listen at the wildcards of both families, and go on if they can, whatever devices there are. */
static void of_ipv6(void)
{
	struct rdma_cm_id *id = bound("0.0.0.0");

	CHECK(!rdma_listen(id, 1));
	CHECK(rdma_get_src_port(id) && !reaches("::1", id) && !rdma_destroy_id(id));
	id = new_id();
	CHECK(!rdma_listen(id, 1) && !rdma_destroy_id(id)); /* at 0.0.0.0 as well */
}

/* One family alone is listened at if the program says so, before or after it has bound its id. */
static void one_family(void)
{
	int on = 1, off = 0;
	struct rdma_cm_id *id = bound("::");

	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CHECK(!rdma_listen(id, 1));
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &off, sizeof off) == -1 && errno == EINVAL);
	CHECK(reaches("::1", id) && !reaches(here, id) && !rdma_destroy_id(id));
	id = new_id();
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &off, sizeof off));
	CHECK(!rdma_bind_addr(id, address("::", 0)) && !rdma_listen(id, 1));
	CHECK(reaches("::1", id) && reaches(here, id) && !rdma_destroy_id(id));
}

static void lengths(void)
{
	struct rdma_cm_id *id = new_id();
	char value[8] = { 1 };

	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, value, 4) == -1 && errno == EINVAL);
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, value, 0) == -1 && errno == EINVAL);
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, value, 1) == -1 && errno == EINVAL);
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, value, 8) == -1 && errno == EINVAL);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, value, 1));
	CHECK(!rdma_destroy_id(id));
}

/* with runs a test in a process of its own that sees certain devices. */
static void with(const char *devices, void (*test)(void))
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		setenv("RAMJET_DEVICES", devices, 1);
		CHECK((channel = rdma_create_event_channel()));
		test();
		rdma_destroy_event_channel(channel);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

int main(void)
{
	char both[128];
	const char *mine = getenv("RAMJET_DEVICES");

	alarm(170);
	CHECK(sscanf(mine, "roce:%63s", here) == 1);
	snprintf(both, sizeof both, "%s roce:::1", mine);
	with(mine, loopback);
	with(mine, any);
	with(mine, no_way);
	with(mine, no_port);
	with("roce:::1", of_ipv6);
	with(both, one_family);
	with(mine, lengths);
	return 0;
}
