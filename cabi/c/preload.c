/* SPDX-License-Identifier: Apache-2.0 */

/* librspreload.so: with LD_PRELOAD, a program's TCP sockets are rsockets. A socket that cannot be
 * bound or connected as one becomes a TCP socket of the same number. */

#define _GNU_SOURCE
#define RJ_UNNAMED /* its calls are logged as a program's are */
#include "rs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

/* How long a peer's rsocket may take to answer, in milliseconds, before TCP is tried. */
#define PATIENCE 5000

/* Which descriptors are rsockets, with the flags that become_tcp needs, and which are epolls with rsockets in them. */
enum { OURS = 1, CLOSE_ON_EXEC = 2, EPOLL = 4 };
static unsigned char ours[1 << 16];

static int duplicated; /* there may be rsockets with several numbers */

/* Nonzero inside the libraries below, which call these functions too and mean the system's. */
static __thread int inside;

static int is(int fd, int what)
{
	return fd >= 0 && (size_t)fd < sizeof ours && __atomic_load_n(&ours[fd], __ATOMIC_RELAXED) & what;
}

/* Also within the libraries, which never mean the system's descriptor: the caller is a handler of a signal. */
static int is_ours(int fd) { return is(fd, OURS); }

static int is_epoll(int fd) { return !inside && is(fd, EPOLL); }

/* WITHIN calls the libraries below. */
#define WITHIN(call) ({ inside++; __typeof__(call) r_ = (call); inside--; r_; })

/* own takes an rsocket that was asked for with flags of type; -1: there is none, or its number is
 * too high. */
static int own(int fd, int type)
{
	if (fd < 0)
		return -1;
	if ((size_t)fd >= sizeof ours) {
		WITHIN(rclose(fd));
		errno = EMFILE;
		return -1;
	}
	__atomic_store_n(&ours[fd], type & SOCK_CLOEXEC ? OURS | CLOSE_ON_EXEC : OURS, __ATOMIC_RELAXED);
	return fd;
}

static void disown(int fd)
{
	__atomic_store_n(&ours[fd], 0, __ATOMIC_RELAXED);
}

/* REPLACE begins the definition of a function that replaces the system's. */
#define REPLACE(result, name, parameters) EXPORT result name parameters

/* SYSTEM is the system's function. */
#define SYSTEM(name) ({ static __typeof__(&name) f_; if (!f_) f_ = (__typeof__(f_))dlsym(RTLD_NEXT, #name); f_; })
#define EITHER(fd, mine, name, ...) (is_ours(fd) ? WITHIN(mine) : SYSTEM(name)(__VA_ARGS__))

REPLACE(int, socket, (int domain, int type, int protocol))
{
	int fd = -1;

	if (!inside && (domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
	    (!protocol || protocol == IPPROTO_TCP))
		fd = own(WITHIN(rsocket(domain, type, protocol)), type);
	return fd < 0 ? SYSTEM(socket)(domain, type, protocol) : fd;
}

/* replace puts a TCP socket in the place of one of an rsocket's numbers. */
static int replace(int fd, int tcp)
{
	if (SYSTEM(dup3)(tcp, fd, ours[fd] & CLOSE_ON_EXEC ? O_CLOEXEC : 0) < 0)
		return -1;
	disown(fd);
	rj_repoll_became(fd);
	INSIDE(rj_rs()->rs_close(fd, 1));
	return 0;
}

/* become_tcp puts a TCP socket in an rsocket's place. */
static int become_tcp(int fd)
{
	static const struct { int level, name; } options[] = { { SOL_SOCKET, SO_REUSEADDR }, { SOL_SOCKET, SO_KEEPALIVE },
		{ IPPROTO_TCP, TCP_NODELAY }, { IPPROTO_IPV6, IPV6_V6ONLY } };
	struct sockaddr_storage at;
	socklen_t length = sizeof at, size;
	int tcp, v, flags = rfcntl(fd, F_GETFL), err = errno, n;
	size_t i;

	if (rgetsockname(fd, (struct sockaddr *)&at, &length))
		return -1;
	tcp = SYSTEM(socket)(at.ss_family, SOCK_STREAM, 0);
	if (tcp < 0)
		return -1;
	for (i = 0; i < sizeof options / sizeof *options; i++)
		if (size = sizeof v, !rgetsockopt(fd, options[i].level, options[i].name, &v, &size) && v)
			SYSTEM(setsockopt)(tcp, options[i].level, options[i].name, &v, sizeof v);
	if (((struct sockaddr_in *)&at)->sin_port)
		SYSTEM(bind)(tcp, (struct sockaddr *)&at, length);
	if (flags & O_NONBLOCK)
		SYSTEM(fcntl)(tcp, F_SETFL, O_NONBLOCK);
	for (n = 0; __atomic_load_n(&duplicated, __ATOMIC_RELAXED) && (size_t)n < sizeof ours; n++)
		if (n != fd && ours[n] & OURS && GO(rj_rs()->rs_same(n, fd), 0))
			replace(n, tcp);
	if (replace(fd, tcp)) {
		SYSTEM(close)(tcp);
		return -1;
	}
	SYSTEM(close)(tcp);
	errno = err;
	return 0;
}

REPLACE(int, bind, (int fd, const struct sockaddr *addr, socklen_t length))
{
	int r;

	if (!is_ours(fd))
		return SYSTEM(bind)(fd, addr, length);
	r = WITHIN(rbind(fd, addr, length));
	if (!r || (errno != EADDRNOTAVAIL && errno != ENODEV) || WITHIN(become_tcp(fd)))
		return r;
	return SYSTEM(bind)(fd, addr, length);
}

static int try_connect(int fd, const struct sockaddr *addr, socklen_t length)
{
	struct pollfd p = { fd, POLLOUT, 0 };
	int flags = rfcntl(fd, F_GETFL), left = PATIENCE, r, err;
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	rfcntl(fd, F_SETFL, flags | O_NONBLOCK);
	r = rconnect(fd, addr, length);
	if (r && errno == EINPROGRESS) {
		while ((r = rpoll(&p, 1, left)) < 0 && errno == EINTR) { /* a signal, not an answer of the peer */
			clock_gettime(CLOCK_MONOTONIC, &now);
			left = PATIENCE - (now.tv_sec - start.tv_sec) * 1000;
			left = left > 0 ? left : 0;
		}
		r = r > 0 ? rconnect(fd, addr, length) : -1;
	}
	err = errno;
	rfcntl(fd, F_SETFL, flags);
	errno = err;
	return r;
}

/* connect waits for the rsocket also if the program's socket does not block: there is no other
 * way to know in time that it has to be a TCP socket. */
REPLACE(int, connect, (int fd, const struct sockaddr *addr, socklen_t length))
{
	int r;

	if (!is_ours(fd))
		return SYSTEM(connect)(fd, addr, length);
	r = WITHIN(try_connect(fd, addr, length));
	if (!r || errno == EISCONN || errno == EINVAL || errno == EAFNOSUPPORT || WITHIN(become_tcp(fd)))
		return r;
	return SYSTEM(connect)(fd, addr, length);
}

REPLACE(int, listen, (int fd, int backlog))
{
	return EITHER(fd, rlisten(fd, backlog), listen, fd, backlog);
}

REPLACE(int, accept4, (int fd, struct sockaddr *addr, socklen_t *length, int flags))
{
	int s;

	if (!is_ours(fd))
		return SYSTEM(accept4)(fd, addr, length, flags);
	s = own(WITHIN(raccept(fd, addr, length)), flags);
	if (s >= 0 && flags & SOCK_NONBLOCK)
		WITHIN(rfcntl(s, F_SETFL, O_NONBLOCK));
	return s;
}

REPLACE(int, accept, (int fd, struct sockaddr *addr, socklen_t *length))
{
	return is_ours(fd) ? accept4(fd, addr, length, 0) : SYSTEM(accept)(fd, addr, length);
}

REPLACE(int, shutdown, (int fd, int how))
{
	return EITHER(fd, rshutdown(fd, how), shutdown, fd, how);
}

REPLACE(int, close, (int fd))
{
	if (!is(fd, OURS | EPOLL))
		return SYSTEM(close)(fd);
	disown(fd);
	return WITHIN(rclose(fd));
}

/* alias makes a number that the system has duplicated one of an rsocket. */
static int alias(int fd, int to, int flags)
{
	int err;

	if (to < 0)
		return -1;
	err = -WITHIN(GO(rj_rs()->rs_dup(fd, to), -EDEADLK));
	if (err) {
		SYSTEM(close)(to);
		errno = err;
		return -1;
	}
	__atomic_store_n(&duplicated, 1, __ATOMIC_RELAXED);
	return own(to, flags & O_CLOEXEC ? SOCK_CLOEXEC : 0);
}

/* over duplicates a descriptor to a number that may be in use, which is closed then, but not if the call fails. */
static int over(int from, int to, int flags)
{
	const int mine = is_ours(from);

	if (SYSTEM(fcntl)(from, F_GETFD) < 0 || to < 0)
		return errno = EBADF, -1;
	if (is(to, OURS | EPOLL))
		close(to);
	to = SYSTEM(dup3)(from, to, flags);
	return mine ? alias(from, to, flags) : to;
}

REPLACE(int, dup2, (int from, int to))
{
	if (from == to || (!is_ours(from) && !is(to, OURS | EPOLL)))
		return SYSTEM(dup2)(from, to);
	return over(from, to, 0);
}

REPLACE(int, dup3, (int from, int to, int flags))
{
	if (from == to || flags & ~O_CLOEXEC || (!is_ours(from) && !is(to, OURS | EPOLL)))
		return SYSTEM(dup3)(from, to, flags);
	return over(from, to, flags);
}

REPLACE(int, dup, (int fd))
{
	return is_ours(fd) ? alias(fd, SYSTEM(dup)(fd), 0) : SYSTEM(dup)(fd);
}

REPLACE(ssize_t, recv, (int fd, void *buf, size_t length, int flags))
{
	return EITHER(fd, rrecv(fd, buf, length, flags), recv, fd, buf, length, flags);
}

REPLACE(ssize_t, recvfrom, (int fd, void *buf, size_t length, int flags, struct sockaddr *from, socklen_t *room))
{
	return EITHER(fd, rrecvfrom(fd, buf, length, flags, from, room), recvfrom, fd, buf, length, flags, from, room);
}

REPLACE(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags))
{
	return EITHER(fd, rrecvmsg(fd, msg, flags), recvmsg, fd, msg, flags);
}

REPLACE(ssize_t, read, (int fd, void *buf, size_t length))
{
	return EITHER(fd, rread(fd, buf, length), read, fd, buf, length);
}

REPLACE(ssize_t, readv, (int fd, const struct iovec *iov, int n))
{
	return EITHER(fd, rreadv(fd, iov, n), readv, fd, iov, n);
}

REPLACE(ssize_t, send, (int fd, const void *buf, size_t length, int flags))
{
	return EITHER(fd, rsend(fd, buf, length, flags), send, fd, buf, length, flags);
}

REPLACE(ssize_t, sendto, (int fd, const void *buf, size_t length, int flags, const struct sockaddr *to, socklen_t room))
{
	return EITHER(fd, rsendto(fd, buf, length, flags, to, room), sendto, fd, buf, length, flags, to, room);
}

REPLACE(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags))
{
	return EITHER(fd, rsendmsg(fd, msg, flags), sendmsg, fd, msg, flags);
}

REPLACE(ssize_t, write, (int fd, const void *buf, size_t length))
{
	return EITHER(fd, rwrite(fd, buf, length), write, fd, buf, length);
}

REPLACE(ssize_t, writev, (int fd, const struct iovec *iov, int n))
{
	return EITHER(fd, rwritev(fd, iov, n), writev, fd, iov, n);
}

REPLACE(ssize_t, sendfile, (int to, int from, off_t *offset, size_t count))
{
	char buf[65536];
	ssize_t n, sent;

	if (!is_ours(to))
		return SYSTEM(sendfile)(to, from, offset, count);
	if (count > sizeof buf)
		count = sizeof buf;
	n = offset ? pread(from, buf, count, *offset) : pread(from, buf, count, lseek(from, 0, SEEK_CUR));
	if (n <= 0)
		return n;
	sent = WITHIN(rsend(to, buf, n, 0));
	if (sent > 0 && offset)
		*offset += sent;
	else if (sent > 0)
		lseek(from, sent, SEEK_CUR);
	return sent;
}

_Static_assert(sizeof(off_t) == sizeof(off64_t), "all files are large");
EXPORT ssize_t sendfile64(int to, int from, off64_t *offset, size_t count) __attribute__((alias("sendfile")));

/* The mask of signals of a ppoll or pselect under way: it is for the sleep below, as a signal that
 * comes just before it must end it. */
static __thread const sigset_t *during;

REPLACE(int, poll, (struct pollfd *fds, nfds_t n, int timeout))
{
	struct timespec t = { timeout / 1000, timeout % 1000 * 1000000L };
	nfds_t i = 0;

	while (inside && i < n && !is_ours(fds[i].fd))
		i++;
	if (!inside || i < n)
		return WITHIN(rpoll(fds, n, timeout));
	if (!during || !timeout)
		return SYSTEM(poll)(fds, n, timeout);
	return SYSTEM(ppoll)(fds, n, timeout < 0 ? NULL : &t, during);
}

/* signalled takes signals that are blocked but by a mask after a call that did not sleep. */
static int signalled(int r, const struct timespec *timeout, const sigset_t *mask)
{
	static const struct timespec none;

	during = NULL;
	if (!r && mask && timeout && !timeout->tv_sec && !timeout->tv_nsec)
		return SYSTEM(ppoll)(NULL, 0, &none, mask);
	return r;
}

REPLACE(int, ppoll, (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask))
{
	nfds_t i;

	for (i = 0; i < n && !is_ours(fds[i].fd); i++)
		;
	if (i == n)
		return SYSTEM(ppoll)(fds, n, timeout, mask);
	during = mask;
	return signalled(poll(fds, n, timeout ? rj_rs_timeout(timeout->tv_sec, timeout->tv_nsec) : -1), timeout, mask);
}

/* any_ours reports whether there is an rsocket in a set. */
static int any_ours(int n, fd_set *set)
{
	int fd;

	for (fd = 0; set && fd < n; fd++)
		if (FD_ISSET(fd, set) && is_ours(fd))
			return 1;
	return 0;
}

REPLACE(int, select, (int n, fd_set *readers, fd_set *writers, fd_set *exceptions, struct timeval *timeout))
{
	if (any_ours(n, readers) || any_ours(n, writers) || any_ours(n, exceptions))
		return WITHIN(rselect(n, readers, writers, exceptions, timeout));
	return SYSTEM(select)(n, readers, writers, exceptions, timeout);
}

REPLACE(int, pselect, (int n, fd_set *readers, fd_set *writers, fd_set *exceptions, const struct timespec *timeout, const sigset_t *mask))
{
	struct timeval t;

	if (!any_ours(n, readers) && !any_ours(n, writers) && !any_ours(n, exceptions))
		return SYSTEM(pselect)(n, readers, writers, exceptions, timeout, mask);
	if (timeout)
		t = (struct timeval){ timeout->tv_sec, (timeout->tv_nsec + 999) / 1000 };
	during = mask;
	return signalled(WITHIN(rselect(n, readers, writers, exceptions, timeout ? &t : NULL)), timeout, mask);
}

REPLACE(int, epoll_ctl, (int ep, int op, int fd, struct epoll_event *event))
{
	int r;

	if (!is_ours(fd))
		return SYSTEM(epoll_ctl)(ep, op, fd, event);
	r = WITHIN(repoll_ctl(ep, op, fd, event));
	if (!r && ep >= 0 && (size_t)ep < sizeof ours)
		__atomic_store_n(&ours[ep], EPOLL, __ATOMIC_RELAXED);
	return r;
}

REPLACE(int, epoll_wait, (int ep, struct epoll_event *events, int room, int timeout))
{
	if (is_epoll(ep))
		return WITHIN(repoll_wait(ep, events, room, timeout));
	if (!inside || !during || !timeout)
		return SYSTEM(epoll_wait)(ep, events, room, timeout);
	return SYSTEM(epoll_pwait)(ep, events, room, timeout, during);
}

REPLACE(int, epoll_pwait, (int ep, struct epoll_event *events, int room, int timeout, const sigset_t *mask))
{
	static const struct timespec none;

	if (!is_epoll(ep))
		return SYSTEM(epoll_pwait)(ep, events, room, timeout, mask);
	during = mask;
	return signalled(WITHIN(repoll_wait(ep, events, room, timeout)), timeout ? NULL : &none, mask);
}

int epoll_pwait2(int ep, struct epoll_event *events, int room, const struct timespec *timeout, const sigset_t *mask);
REPLACE(int, epoll_pwait2, (int ep, struct epoll_event *events, int room, const struct timespec *timeout, const sigset_t *mask))
{
	if (!is_epoll(ep))
		return SYSTEM(epoll_pwait2)(ep, events, room, timeout, mask);
	return epoll_pwait(ep, events, room, timeout ? rj_rs_timeout(timeout->tv_sec, timeout->tv_nsec) : -1, mask);
}

REPLACE(int, getpeername, (int fd, struct sockaddr *addr, socklen_t *length))
{
	return EITHER(fd, rgetpeername(fd, addr, length), getpeername, fd, addr, length);
}

REPLACE(int, getsockname, (int fd, struct sockaddr *addr, socklen_t *length))
{
	return EITHER(fd, rgetsockname(fd, addr, length), getsockname, fd, addr, length);
}

REPLACE(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length))
{
	return EITHER(fd, rsetsockopt(fd, level, name, value, length), setsockopt, fd, level, name, value, length);
}

REPLACE(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *length))
{
	return EITHER(fd, rgetsockopt(fd, level, name, value, length), getsockopt, fd, level, name, value, length);
}

REPLACE(int, fcntl, (int fd, int command, ...))
{
	va_list args;
	void *value;

	va_start(args, command);
	value = va_arg(args, void *);
	va_end(args);
	if (is_ours(fd) && command == F_SETFD)
		__atomic_store_n(&ours[fd], (uintptr_t)value & FD_CLOEXEC ? OURS | CLOSE_ON_EXEC : OURS, __ATOMIC_RELAXED);
	if (is_ours(fd) && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
		return alias(fd, SYSTEM(fcntl)(fd, command, value), command == F_DUPFD ? 0 : O_CLOEXEC);
	return EITHER(fd, rfcntl(fd, command, value), fcntl, fd, command, value);
}

EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

/* readable says how many bytes can be read at once, or at least that many: no more than a buffer has. */
static int readable(int fd, int *out)
{
	char buf[65536];
	ssize_t n = WITHIN(rrecv(fd, buf, sizeof buf, MSG_PEEK | MSG_DONTWAIT));

	if (n < 0 && errno != EAGAIN)
		return -1;
	*out = n > 0 ? (int)n : 0;
	return 0;
}

REPLACE(int, ioctl, (int fd, unsigned long request, ...))
{
	va_list args;
	void *value;
	int flags;

	va_start(args, request);
	value = va_arg(args, void *);
	va_end(args);
	if (!is_ours(fd))
		return SYSTEM(ioctl)(fd, request, value);
	if (request == FIONREAD)
		return readable(fd, value);
	if (request != FIONBIO) {
		errno = ENOTTY;
		return -1;
	}
	flags = WITHIN(rfcntl(fd, F_GETFL)) & ~O_NONBLOCK;
	return WITHIN(rfcntl(fd, F_SETFL, flags | (*(int *)value ? O_NONBLOCK : 0)));
}

/* Compilers call these variants where they know the size of the buffer. */
#define CHECKED __attribute__((visibility("default"), used))
CHECKED ssize_t __read_chk(int fd, void *buf, size_t length, size_t room);
CHECKED ssize_t __recv_chk(int fd, void *buf, size_t length, size_t room, int flags);
CHECKED ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t room, int flags, struct sockaddr *from, socklen_t *size);
CHECKED int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
CHECKED int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t room);

ssize_t __read_chk(int fd, void *buf, size_t length, size_t room)
{
	return length > room ? abort(), -1 : read(fd, buf, length);
}

ssize_t __recv_chk(int fd, void *buf, size_t length, size_t room, int flags)
{
	return length > room ? abort(), -1 : recv(fd, buf, length, flags);
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t room, int flags, struct sockaddr *from, socklen_t *size)
{
	return length > room ? abort(), -1 : recvfrom(fd, buf, length, flags, from, size);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	return n * sizeof *fds > room ? abort(), -1 : poll(fds, n, timeout);
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t room)
{
	return n * sizeof *fds > room ? abort(), -1 : ppoll(fds, n, timeout, mask);
}
