/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm.so.1: rsockets. */

#include "rs.h"

#include <unistd.h>

static int used; /* a socket was created */

EXPORT int rsocket(int domain, int type, int protocol)
{
	const struct rj_calls *c = rj();

	__atomic_store_n(&used, 1, __ATOMIC_RELAXED);
	return c ? rj_rs_result(GO(c->rs_socket(domain, type, protocol), -EDEADLK)) : -1;
}

/* CALL makes a call that never waits. */
#define CALL(call) ({ const struct rj_calls *c_ = rj_rs(); c_ ? rj_rs_result(GO(c_->call, -EDEADLK)) : -1; })

/* short_address refuses an address that is too short for its family. */
static int short_address(const struct sockaddr *addr, socklen_t length)
{
	if (!addr || length < sizeof(addr->sa_family) || (addr->sa_family == AF_INET && length < sizeof(struct sockaddr_in)) ||
	    (addr->sa_family == AF_INET6 && length < sizeof(struct sockaddr_in6))) {
		errno = EINVAL;
		return 1;
	}
	return 0;
}

EXPORT int rbind(int fd, const struct sockaddr *addr, socklen_t length)
{
	return short_address(addr, length) ? -1 : CALL(rs_bind(fd, (struct sockaddr *)addr));
}

EXPORT int rlisten(int fd, int backlog)
{
	return CALL(rs_listen(fd, backlog));
}

EXPORT int rshutdown(int fd, int how)
{
	return CALL(rs_shutdown(fd, how));
}

EXPORT int rclose(int fd)
{
	if (rj_inside)
		return rj_rs_result(-EDEADLK);
	if (rj_repoll_closed(fd))
		return close(fd);
	return CALL(rs_close(fd, 0));
}

static void close_all(const struct rj_calls *c) { c->rs_exit(); }

/* At exit sockets are closed, as a system closes its own: peers need not find out by themselves.
 * That may take as long as rs_exit says, and a little. */
__attribute__((destructor)) static void at_exit(void)
{
	if (used)
		rj_apart(close_all, 3);
}

/* give_address copies an address to the program, as much of it as fits. */
static void give_address(struct sockaddr *to, socklen_t *room, const struct sockaddr_storage *from, socklen_t length)
{
	if (!to || !room)
		return;
	memcpy(to, from, *room < length ? *room : length);
	*room = length;
}

static int name(int fd, int peer, struct sockaddr *addr, socklen_t *length)
{
	struct sockaddr_storage found;
	socklen_t n = 0;
	int err = CALL(rs_name(fd, peer, &found, &n));

	if (!err)
		give_address(addr, length, &found, n);
	return err;
}

EXPORT int rgetpeername(int fd, struct sockaddr *addr, socklen_t *length)
{
	return name(fd, 1, addr, length);
}

EXPORT int rgetsockname(int fd, struct sockaddr *addr, socklen_t *length)
{
	return name(fd, 0, addr, length);
}

EXPORT int raccept(int fd, struct sockaddr *addr, socklen_t *length)
{
	const struct rj_calls *c = rj_rs();
	int r;

	if (!c)
		return -1;
	while ((r = GO(c->rs_accept(fd), -EDEADLK)) == RS_WAIT)
		if (rj_rs_sleep(fd, POLLIN))
			return -1;
	if (r >= 0 && addr)
		name(r, 1, addr, length);
	return rj_rs_result(r);
}

EXPORT int rconnect(int fd, const struct sockaddr *addr, socklen_t length)
{
	const struct rj_calls *c = rj_rs();
	int r;

	if (!c || short_address(addr, length))
		return -1;
	while ((r = GO(c->rs_connect(fd, (struct sockaddr *)addr), -EDEADLK)) == RS_WAIT)
		if (rj_rs_sleep(fd, POLLOUT))
			return -1;
	return rj_rs_result(r);
}

/* datagrams reports whether a socket is a datagram socket. */
static int datagrams(int fd)
{
	socklen_t size = sizeof(int);
	int type;

	return !CALL(rs_get_option(fd, SOL_SOCKET, SO_TYPE, &type, &size)) && type == SOCK_DGRAM;
}

static ssize_t receive(int fd, struct iovec *iov, int n, int flags, struct sockaddr *from, socklen_t *length)
{
	const struct rj_calls *c = rj_rs();
	struct sockaddr_storage found;
	socklen_t known = 0;
	size_t want = 0, done = 0;
	ssize_t r;
	int i;

	if (!c)
		return -1;
	if (n && !iov)
		return rj_rs_result(-EFAULT);
	for (i = 0; i < n; i++)
		want += iov[i].iov_len;
	if (flags & MSG_WAITALL && datagrams(fd))
		flags &= ~MSG_WAITALL;
	for (;;) {
		r = GO(c->rs_recv(fd, iov, n, done, flags, from ? &found : NULL, &known), -EDEADLK);
		rj_rs_found(r != -EAGAIN);
		if (r == RS_WAIT) {
			if (!rj_rs_sleep(fd, POLLIN))
				continue;
			r = -errno;
		}
		if (r <= 0)
			break;
		done += r;
		if (!(flags & MSG_WAITALL) || flags & MSG_PEEK || done >= want)
			break;
	}
	if (r < 0 && !done)
		return rj_rs_result(r);
	if (known)
		give_address(from, length, &found, known);
	return done;
}

EXPORT ssize_t rrecvfrom(int fd, void *buf, size_t length, int flags, struct sockaddr *from, socklen_t *room)
{
	struct iovec iov = { buf, length };

	return receive(fd, &iov, 1, flags, from, room);
}

EXPORT ssize_t rrecv(int fd, void *buf, size_t length, int flags)
{
	return rrecvfrom(fd, buf, length, flags, NULL, NULL);
}

EXPORT ssize_t rread(int fd, void *buf, size_t length)
{
	return rrecv(fd, buf, length, 0);
}

EXPORT ssize_t rreadv(int fd, const struct iovec *iov, int n)
{
	if (n < 0 || n > UIO_MAXIOV) {
		errno = EINVAL;
		return -1;
	}
	return receive(fd, (struct iovec *)iov, n, 0, NULL, NULL);
}

/* refused refuses control messages, and lists that are too long. */
static int refused(const struct msghdr *msg)
{
	int err = msg->msg_iovlen > UIO_MAXIOV ? EMSGSIZE : msg->msg_control && msg->msg_controllen ? ENOTSUP : 0;

	if (err)
		errno = err;
	return err;
}

EXPORT ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t r;

	if (refused(msg))
		return -1;
	r = receive(fd, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name, &msg->msg_namelen);
	if (r >= 0)
		msg->msg_flags = 0;
	return r;
}

static ssize_t transmit(int fd, struct iovec *iov, int n, int flags, const struct sockaddr *to, socklen_t length)
{
	const struct rj_calls *c = rj_rs();
	size_t want = 0, done = 0;
	ssize_t r;
	int i;

	if (!c || (to && short_address(to, length)))
		return -1;
	if (n && !iov)
		return rj_rs_result(-EFAULT);
	for (i = 0; i < n; i++)
		want += iov[i].iov_len;
	for (;;) {
		r = GO(c->rs_send(fd, iov, n, done, flags, (struct sockaddr *)to), -EDEADLK);
		rj_rs_found(r != -EAGAIN);
		if (r == RS_WAIT) {
			if (!rj_rs_sleep(fd, POLLOUT))
				continue;
			r = -errno;
		}
		if (r <= 0)
			break;
		done += r;
		if (done >= want)
			break;
	}
	return r < 0 && !done ? rj_rs_result(r) : (ssize_t)done;
}

EXPORT ssize_t rsendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to, socklen_t room)
{
	struct iovec iov = { (void *)buf, length };

	return transmit(fd, &iov, 1, flags, to, room);
}

EXPORT ssize_t rsend(int fd, const void *buf, size_t length, int flags)
{
	return rsendto(fd, buf, length, flags, NULL, 0);
}

EXPORT ssize_t rwrite(int fd, const void *buf, size_t length)
{
	return rsend(fd, buf, length, 0);
}

EXPORT ssize_t rwritev(int fd, const struct iovec *iov, int n)
{
	if (n < 0 || n > UIO_MAXIOV) {
		errno = EINVAL;
		return -1;
	}
	return transmit(fd, (struct iovec *)iov, n, 0, NULL, 0);
}

EXPORT ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (refused(msg))
		return -1;
	return transmit(fd, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name, msg->msg_namelen);
}

EXPORT int rsetsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	if (!value) {
		errno = EFAULT;
		return -1;
	}
	return CALL(rs_set_option(fd, level, option, (void *)value, length));
}

EXPORT int rgetsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
	if (!value || !length) {
		errno = EFAULT;
		return -1;
	}
	return CALL(rs_get_option(fd, level, option, value, length));
}

int rj_do_rfcntl(int fd, int command, int value)
{
	return CALL(rs_fcntl(fd, command, value));
}

EXPORT off_t riomap(int fd, void *buf, size_t length, int prot, int flags, off_t offset)
{
	(void)flags;
	return CALL(rs_iomap(fd, buf, length, prot, offset));
}

EXPORT int riounmap(int fd, void *buf, size_t length)
{
	return CALL(rs_iounmap(fd, buf, length));
}

EXPORT size_t riowrite(int fd, const void *buf, size_t length, off_t offset, int flags)
{
	const struct rj_calls *c = rj_rs();
	size_t done = 0;
	ssize_t r = 0;

	if (!c)
		return -1;
	while (done < length) {
		r = GO(c->rs_iowrite(fd, (char *)buf + done, length - done, offset + done, flags), -EDEADLK);
		if (r == RS_WAIT) {
			if (!rj_rs_sleep(fd, POLLOUT))
				continue;
			r = -errno;
		}
		if (r <= 0) /* 0: nothing is mapped there */
			break;
		done += r;
	}
	return r < 0 && !done ? (size_t)rj_rs_result(r) : done;
}
