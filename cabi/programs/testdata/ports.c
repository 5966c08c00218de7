/* SPDX-License-Identifier: Apache-2.0 */

/* A port's events: its interface goes down and comes back, in a network of the program's own. All contexts
 * of the device hear of it. */

#include "kit.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* network gives the process a network of its own; 0: it may not have one. */
static int network(void)
{
	return !unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET);
}

/* loopback brings the loopback interface up or down. */
static void loopback(int up)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &r));
	r.ifr_flags = (short)(up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
	CHECK(!ioctl(fd, SIOCSIFFLAGS, &r) && !close(fd));
}

/* expect takes the next event of a context, which must be of this type and of port 1, and compares the
 * port's state. */
static void expect(struct ibv_context *c, enum ibv_event_type type, enum ibv_port_state state)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_port_attr attr;

	CHECK(poll(&p, 1, -1) == 1 && !ibv_get_async_event(c, &event));
	if (event.event_type != type || event.element.port_num != 1) {
		fprintf(stderr, "%s of port %d, not %s\n", ibv_event_type_str(event.event_type), event.element.port_num,
			ibv_event_type_str(type));
		exit(1);
	}
	ibv_ack_async_event(&event);
	CHECK(!ibv_query_port(c, 1, &attr) && attr.state == state);
}

static void none(struct ibv_context *c)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };

	CHECK(!poll(&p, 1, 0));
}

int main(void)
{
	struct ibv_device **list;
	struct ibv_context *other;

	alarm(170);
	if (!network()) {
		printf("skipped: a network of its own: %s\n", strerror(errno));
		return 0;
	}
	loopback(1);
	open_device();
	CHECK((list = ibv_get_device_list(NULL)) && (other = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	none(context);
	for (int i = 0; i < 3; i++) {
		loopback(0);
		expect(context, IBV_EVENT_PORT_ERR, IBV_PORT_DOWN);
		expect(other, IBV_EVENT_PORT_ERR, IBV_PORT_DOWN);
		loopback(1);
		expect(context, IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE);
		expect(other, IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE);
		exchange();
	}
	none(context);
	none(other);
	CHECK(!ibv_close_device(other));
	return 0;
}
