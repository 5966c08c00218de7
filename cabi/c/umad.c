/* SPDX-License-Identifier: Apache-2.0 */

/* Ports, agents, sending and receiving. A port is known by a file descriptor that is readable while
 * datagrams wait. */

#include "umad.h"

#include <poll.h>
#include <time.h>

/* struct agent_attr is the argument of umad_register2. */
struct agent_attr {
	uint8_t class, version;
	uint32_t flags;
	uint64_t methods[2]; /* a bit for each */
	uint32_t oui;
	uint8_t rmpp_version;
};

EXPORT int umad_open_port(const char *name, int num)
{
	int fd, err = UTRY(umad_open((char *)(name ? name : ""), num, &fd));

	return err ? err : fd;
}

EXPORT int umad_close_port(int port) { return UTRY(umad_close(port)); }
EXPORT int umad_get_fd(int port) { return port; }

static int registered(int port, int class, int version, int rmpp, const void *methods)
{
	uint64_t mask[2] = { 0 };
	int agent, err;

	if (methods)
		memcpy(mask, methods, sizeof mask);
	err = UTRY(umad_register(port, class, version, rmpp, mask, &agent));
	return err ? err : agent;
}

EXPORT int umad_register(int port, int class, int version, uint8_t rmpp_version, long methods[])
{
	return registered(port, class, version, rmpp_version, methods);
}

/* Classes of vendors: only the class is looked at, not the OUI. */
EXPORT int umad_register_oui(int port, int class, uint8_t rmpp_version, uint8_t oui[3], long methods[])
{
	(void)oui;
	if (class < 0x30 || class > 0x4f)
		return -EINVAL;
	return registered(port, class, 0, rmpp_version, methods);
}

EXPORT int umad_register2(int port, struct agent_attr *attr, uint32_t *agent)
{
	const uint32_t user_rmpp = 1; /* the program puts segments together itself */
	int n;

	if (attr->flags & ~user_rmpp) {
		attr->flags = user_rmpp;
		return EINVAL;
	}
	n = registered(port, attr->class, attr->version, attr->flags & user_rmpp ? 0 : attr->rmpp_version, attr->methods);
	if (n < 0)
		return -n;
	*agent = n;
	return 0;
}

EXPORT int umad_unregister(int port, int agent) { return UTRY(umad_unregister(port, agent)); }

EXPORT int umad_send(int port, int agent, void *umad, int length, int timeout_ms, int retries)
{
	struct rj_umad *m = umad;
	int err;

	m->agent = agent;
	m->timeout_ms = timeout_ms > 0 ? timeout_ms : 0;
	m->retries = retries > 0 ? retries : 0;
	err = UTRY(umad_send(port, m, length));
	if (err)
		errno = -err;
	return err;
}

EXPORT int umad_poll(int port, int timeout_ms)
{
	struct pollfd p = { .fd = port, .events = POLLIN };
	int n = poll(&p, 1, timeout_ms);

	return n > 0 ? 0 : n ? -errno : -ETIMEDOUT;
}

static int64_t milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A timeout of 0 does not wait, a negative one waits without end. */
EXPORT int umad_recv(int port, void *umad, int *length, int timeout_ms)
{
	int64_t until = milliseconds() + timeout_ms;
	int err, left = timeout_ms;

	errno = 0;
	while ((err = UTRY(umad_recv(port, umad, length))) == -EAGAIN && timeout_ms) {
		err = umad_poll(port, left);
		if (err)
			break;
		if (timeout_ms > 0 && (left = until - milliseconds()) < 0)
			left = 0;
	}
	if (err) {
		errno = -err;
		return err;
	}
	return ((struct rj_umad *)umad)->agent;
}
