/* SPDX-License-Identifier: Apache-2.0 */

/* What rsockets can do beyond what Debian's programs ask of them: readiness with timeouts and
 * other file descriptors, half close, connecting without waiting, errors, lists of buffers,
 * datagrams, signals, cancelled threads, and peers that die. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); exit(1); } } while (0)
#define FAILS(x, e) do { errno = 0; CHECK((x) == -1); if (errno != (e)) { \
	fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #x, strerror(errno), strerror(e)); exit(1); } } while (0)

static struct sockaddr_in here; /* the device's address */

static struct sockaddr_in name_of(int s, int (*get)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in a;
	socklen_t n = sizeof a;

	CHECK(!get(s, (struct sockaddr *)&a, &n) && n == sizeof a && a.sin_family == AF_INET);
	return a;
}

static short ready(int s, short events, int timeout)
{
	struct pollfd p = { s, events, 0x7fff };
	int n = rpoll(&p, 1, timeout);

	CHECK(n == !!p.revents);
	return p.revents;
}

static int option(int s, int level, int name)
{
	int v = -1;
	socklen_t n = sizeof v;

	CHECK(!rgetsockopt(s, level, name, &v, &n) && n == sizeof v);
	return v;
}

static void set_option(int s, int level, int name, int v)
{
	CHECK(!rsetsockopt(s, level, name, &v, sizeof v));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int listener(struct sockaddr_in *at)
{
	int l;

	CHECK((l = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!rbind(l, (struct sockaddr *)&here, sizeof here));
	*at = name_of(l, rgetsockname);
	CHECK(at->sin_port && at->sin_addr.s_addr == here.sin_addr.s_addr);
	CHECK(!rlisten(l, 8));
	return l;
}

/* make_pair connects two sockets of this thread. */
static void make_pair(int *a, int *b)
{
	struct sockaddr_in at;
	int l = listener(&at);

	CHECK((*a = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP)) >= 0);
	CHECK(!rfcntl(*a, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(*a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK((*b = raccept(l, NULL, NULL)) >= 0);
	CHECK(ready(*a, POLLOUT, 60000) == POLLOUT);
	CHECK(!option(*a, SOL_SOCKET, SO_ERROR));
	CHECK(!rfcntl(*a, F_SETFL, 0));
	CHECK(!rclose(l));
}

static void close_pair(int a, int b)
{
	CHECK(!rclose(a) && !rclose(b));
}

static void test_errors(void)
{
	struct sockaddr_in at, nobody = here, six;
	int l, s, t;
	char c = 0;

	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EINVAL);
	CHECK((s = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(fcntl(s, F_GETFD) >= 0); /* the number is taken */
	FAILS(rrecv(s, &c, 1, 0), ENOTCONN);
	FAILS(rsend(s, &c, 1, 0), ENOTCONN);
	FAILS(rshutdown(s, SHUT_WR), ENOTCONN);
	FAILS(raccept(s, NULL, NULL), EINVAL);
	FAILS(rgetpeername(s, (struct sockaddr *)&at, &(socklen_t){ sizeof at }), ENOTCONN);
	six = here;
	six.sin_family = AF_INET6;
	FAILS(rbind(s, (struct sockaddr *)&six, sizeof six), EINVAL); /* too short */
	nobody.sin_addr.s_addr = htonl(0xc0000201);
	FAILS(rbind(s, (struct sockaddr *)&nobody, sizeof nobody), EADDRNOTAVAIL);
	l = listener(&at);
	FAILS(rbind(s, (struct sockaddr *)&at, sizeof at), EADDRINUSE);
	FAILS(rbind(l, (struct sockaddr *)&here, sizeof here), EINVAL);
	FAILS(rconnect(l, (struct sockaddr *)&at, sizeof at), EINVAL);
	CHECK(!rclose(l));

	/* Nobody listens there any more. */
	FAILS(rconnect(s, (struct sockaddr *)&at, sizeof at), ECONNREFUSED);
	CHECK(!rfcntl(s, F_SETFL, O_NONBLOCK) && rfcntl(s, F_GETFL) & O_NONBLOCK);
	FAILS(rconnect(s, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(ready(s, POLLOUT, 60000) & POLLERR);
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
	CHECK(option(s, SOL_SOCKET, SO_ERROR) == 0);
	FAILS(rrecv(s, &c, 1, 0), ENOTCONN);
	CHECK(!rclose(s));
	FAILS(rclose(s), EBADF);
	FAILS(rrecv(s, &c, 1, 0), EBADF);
	FAILS(rsend(s, &c, 1, 0), EBADF);
	CHECK((t = open("/dev/null", O_RDWR)) >= 0);
	FAILS(rlisten(t, 1), EBADF); /* no rsocket */
	CHECK(!close(t));
}

static void test_options(void)
{
	struct linger linger = { 1, 3 }, got;
	socklen_t n = sizeof got;
	int s, v = 1;

	CHECK((s = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	set_option(s, SOL_SOCKET, SO_REUSEADDR, 1);
	set_option(s, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(s, SOL_SOCKET, SO_SNDBUF, 10000);
	set_option(s, SOL_RDMA, RDMA_SQSIZE, 100);
	set_option(s, SOL_RDMA, RDMA_RQSIZE, 200);
	set_option(s, SOL_RDMA, RDMA_INLINE, 0);
	set_option(s, SOL_RDMA, RDMA_IOMAPSIZE, 4);
	set_option(s, IPPROTO_TCP, TCP_KEEPIDLE, 7);
	CHECK(option(s, SOL_SOCKET, SO_REUSEADDR) == 1 && option(s, SOL_SOCKET, SO_KEEPALIVE) == 0);
	CHECK(option(s, IPPROTO_TCP, TCP_NODELAY) == 1 && option(s, IPPROTO_TCP, TCP_KEEPIDLE) == 7);
	CHECK(option(s, SOL_SOCKET, SO_SNDBUF) == 20000);
	CHECK(option(s, SOL_RDMA, RDMA_SQSIZE) == 100 && option(s, SOL_RDMA, RDMA_RQSIZE) == 200);
	CHECK(option(s, SOL_RDMA, RDMA_INLINE) == 0 && option(s, SOL_RDMA, RDMA_IOMAPSIZE) == 4);
	CHECK(option(s, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK(!rsetsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	CHECK(!rgetsockopt(s, SOL_SOCKET, SO_LINGER, &got, &n) && got.l_onoff == 1 && got.l_linger == 3);
	FAILS(rsetsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &v, sizeof v), ENOTSUP);
	FAILS(rsetsockopt(s, IPPROTO_IP, IP_MULTICAST_LOOP, &v, sizeof v), ENOTSUP);
	FAILS(rsetsockopt(s, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &v, sizeof v), ENOTSUP);
	v = 0;
	FAILS(rsetsockopt(s, IPPROTO_TCP, TCP_KEEPIDLE, &v, sizeof v), EINVAL);
	FAILS(rsetsockopt(s, SOL_SOCKET, SO_REUSEADDR, &v, 1), EINVAL);
	CHECK(!rclose(s));
}

/* silent takes the packets for an address of no device, so that a connection there stays in the making. */
static int silent(struct sockaddr_in *at)
{
	unsigned char *b = (unsigned char *)&at->sin_addr;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*at = here;
	b[1] ^= 192; /* the tests' devices are in 127.128.0.0/10 */
	at->sin_port = htons(4791);
	CHECK(s >= 0);
	while (bind(s, (struct sockaddr *)at, sizeof *at)) {
		CHECK(errno == EADDRINUSE);
		b[2]++;
	}
	return s;
}

static void test_connecting(void)
{
	struct sockaddr_in at;
	int silence = silent(&at), a;
	char c;

	CHECK((a = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EALREADY);
	FAILS(rrecv(a, &c, 1, 0), EAGAIN);
	FAILS(rsend(a, &c, 1, 0), EAGAIN);
	CHECK(!rclose(a) && !close(silence));
}

/* All in one thread, which never waits but in rpoll. */
static void test_connect(void)
{
	struct sockaddr_in at, from;
	int l = listener(&at), a, b;
	socklen_t n = sizeof from;
	double start = now();
	char c;

	CHECK(option(l, SOL_SOCKET, SO_ACCEPTCONN) == 1);
	CHECK(!ready(l, POLLIN, 30) && now() - start >= 0.029);
	CHECK(!rfcntl(l, F_SETFL, O_NONBLOCK));
	FAILS(raccept(l, NULL, NULL), EAGAIN);
	CHECK((a = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(ready(l, POLLIN, 60000) == POLLIN);
	CHECK((b = raccept(l, (struct sockaddr *)&from, &n)) >= 0 && n == sizeof from);
	FAILS(raccept(l, NULL, NULL), EAGAIN);
	CHECK(ready(a, POLLOUT, 60000) == POLLOUT && ready(b, POLLOUT, 60000) == POLLOUT);
	CHECK(!rconnect(a, (struct sockaddr *)&at, sizeof at)); /* done */
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EISCONN);
	CHECK(name_of(a, rgetsockname).sin_port == from.sin_port && name_of(b, rgetpeername).sin_port == from.sin_port);
	CHECK(name_of(a, rgetpeername).sin_port == at.sin_port && name_of(b, rgetsockname).sin_port == at.sin_port);
	CHECK(!(rfcntl(b, F_GETFL) & O_NONBLOCK)); /* which is not inherited */
	CHECK(!ready(b, POLLIN, 0));
	FAILS(rrecv(b, &c, 1, MSG_DONTWAIT), EAGAIN);
	FAILS(rsendto(a, &c, 1, 0, (struct sockaddr *)&at, sizeof at), EISCONN);
	CHECK(!rclose(l));
	close_pair(a, b);
}

static void test_lists(void)
{
	char in[3][8] = { "" }, all[32] = "";
	struct iovec out[3] = { { "one ", 4 }, { "", 0 }, { "two three", 9 } };
	struct iovec to[3] = { { in[0], 2 }, { in[1], 4 }, { in[2], 7 } };
	struct msghdr msg = { .msg_iov = out, .msg_iovlen = 3 }, got = { .msg_iov = to, .msg_iovlen = 3 };
	struct sockaddr_in from;
	socklen_t n = sizeof from;
	int a, b;

	make_pair(&a, &b);
	CHECK(rsendmsg(a, &msg, 0) == 13);
	CHECK(ready(b, POLLIN, 60000) == POLLIN);
	CHECK(rrecv(b, all, 13, MSG_PEEK | MSG_WAITALL) > 0 && !memcmp(all, "one ", 4));
	CHECK(rrecvmsg(b, &got, MSG_WAITALL) == 13);
	CHECK(!strcmp(in[0], "on") && !strcmp(in[1], "e tw") && !strcmp(in[2], "o three"));
	CHECK(rwritev(b, out, 3) == 13);
	CHECK(rrecvfrom(a, all, 1, 0, (struct sockaddr *)&from, &n) == 1 && from.sin_port == name_of(a, rgetpeername).sin_port);
	for (n = 1; n < 13; n += rreadv(a, &(struct iovec){ all + n, sizeof all - n }, 1))
		;
	CHECK(n == 13 && !strcmp(all, "one two three"));
	CHECK(rwrite(a, "x", 1) == 1 && rread(b, all, sizeof all) == 1 && *all == 'x');
	msg.msg_control = all;
	msg.msg_controllen = 1;
	FAILS(rsendmsg(a, &msg, 0), ENOTSUP);
	FAILS(rrecv(a, all, 1, MSG_OOB), EOPNOTSUPP);
	CHECK(rsend(a, all, 0, 0) == 0 && rrecv(b, all, 0, 0) == 0);
	close_pair(a, b);
}

#define BIG (3 << 20)

static void *sends_all(void *arg)
{
	unsigned char *p = malloc(BIG);
	int s = *(int *)arg;
	size_t i;

	for (i = 0; i < BIG; i++)
		p[i] = i * 7 + (i >> 10);
	CHECK(rsend(s, p, BIG, 0) == BIG);
	free(p);
	return NULL;
}

/* A side that is full waits, or says so; what it sent arrives. */
static void test_full(void)
{
	unsigned char *p = calloc(1, BIG);
	pthread_t thread;
	size_t i, sent = 0, got = 0;
	ssize_t n;
	int a, b;

	make_pair(&a, &b);
	while ((n = rsend(a, p, 100000, MSG_DONTWAIT)) > 0)
		sent += n;
	CHECK(n == -1 && errno == EAGAIN);
	while (ready(a, POLLOUT, 200)) { /* what was on its way has arrived */
		while ((n = rsend(a, p, 100000, MSG_DONTWAIT)) > 0)
			sent += n;
		CHECK(n == -1 && errno == EAGAIN && sent < 64 << 20);
	}
	CHECK(ready(b, POLLIN, 60000) == POLLIN && ready(b, POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
	while (got < sent) {
		CHECK((n = rrecv(b, p, BIG, 0)) > 0);
		got += n;
	}
	CHECK(ready(a, POLLOUT, 60000) == POLLOUT);

	CHECK(!pthread_create(&thread, NULL, sends_all, &a));
	CHECK(rrecv(b, p, BIG, MSG_WAITALL) == BIG);
	for (i = 0; i < BIG; i++)
		CHECK(p[i] == (unsigned char)(i * 7 + (i >> 10)));
	CHECK(!pthread_join(thread, NULL));
	free(p);
	close_pair(a, b);
}

struct later {
	int fd;
	int (*act)(int);
};

static int write_pipe(int fd) { return write(fd, "p", 1) == 1; }
static int send_one(int fd) { return rsend(fd, "r", 1, 0) == 1; }
static int shut(int fd) { return !rshutdown(fd, SHUT_RDWR); }

static void *acts(void *arg)
{
	struct later *l = arg;

	usleep(20000);
	CHECK(l->act(l->fd));
	return NULL;
}

/* Rsockets, a pipe, and a number that is nobody's. */
static void test_mixed(void)
{
	struct later later;
	pthread_t thread;
	int a, b, pipes[2];
	fd_set in, out;
	struct timeval tv = { 60, 0 }, none = { 0, 0 };
	char c;

	make_pair(&a, &b);
	CHECK(!pipe(pipes));
	struct pollfd p[4] = { { a, POLLIN, 1 }, { pipes[0], POLLIN, 1 }, { -1, POLLIN, 1 }, { b, POLLIN, 1 } };

	CHECK(rpoll(p, 4, 0) == 0 && !p[0].revents && !p[1].revents && !p[2].revents && !p[3].revents);
	later = (struct later){ pipes[1], write_pipe };
	CHECK(!pthread_create(&thread, NULL, acts, &later));
	CHECK(rpoll(p, 4, 60000) == 1 && p[1].revents == POLLIN && !p[0].revents && !p[3].revents);
	CHECK(!pthread_join(thread, NULL) && read(pipes[0], &c, 1) == 1);
	later = (struct later){ a, send_one };
	CHECK(!pthread_create(&thread, NULL, acts, &later));
	CHECK(rpoll(p, 4, 60000) == 1 && p[3].revents == POLLIN && !p[1].revents);
	CHECK(!pthread_join(thread, NULL));
	CHECK(write_pipe(pipes[1]) && rpoll(p, 4, -1) == 2);
	p[2].fd = 1000;
	CHECK(rpoll(p, 4, -1) == 3 && p[2].revents == POLLNVAL);
	CHECK(rpoll(p + 1, 1, -1) == 1); /* no rsocket among them */

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(a, &in);
	FD_SET(b, &in);
	FD_SET(pipes[0], &in);
	FD_SET(a, &out);
	CHECK(rselect((a > b ? a : b) + pipes[0] + 1, &in, &out, NULL, &tv) == 3);
	CHECK(!FD_ISSET(a, &in) && FD_ISSET(b, &in) && FD_ISSET(pipes[0], &in) && FD_ISSET(a, &out));
	CHECK(rrecv(b, &c, 1, 0) == 1 && c == 'r');
	FD_CLR(pipes[0], &in);
	CHECK(rselect(b + 1, &in, NULL, NULL, &none) == 0 && !FD_ISSET(b, &in));
	close(pipes[0]);
	close(pipes[1]);
	close_pair(a, b);
}

static void test_closing(void)
{
	struct later later;
	pthread_t thread;
	int a, b;
	char c[8];

	/* Half: what came before is read, the other direction goes on. */
	make_pair(&a, &b);
	CHECK(rsend(a, "last", 4, 0) == 4 && !rshutdown(a, SHUT_WR));
	FAILS(rsend(a, "x", 1, 0), EPIPE);
	CHECK(rrecv(b, c, sizeof c, MSG_WAITALL) == 4 && rrecv(b, c, sizeof c, 0) == 0);
	CHECK(rsend(b, "back", 4, 0) == 4 && rrecv(a, c, 4, MSG_WAITALL) == 4);
	CHECK(!rshutdown(b, SHUT_WR) && rrecv(a, c, 4, 0) == 0);
	close_pair(a, b);

	/* This side's end wakes who waits there. */
	make_pair(&a, &b);
	later = (struct later){ a, shut };
	CHECK(!pthread_create(&thread, NULL, acts, &later));
	CHECK(rrecv(a, c, 1, 0) == 0);
	CHECK(!pthread_join(thread, NULL));
	CHECK(ready(b, POLLIN, 60000) & POLLIN);
	CHECK(rrecv(b, c, 1, 0) == 0);
	close_pair(a, b);

	/* The peer closes. */
	make_pair(&a, &b);
	CHECK(rsend(b, "bye", 3, 0) == 3 && !rclose(b));
	CHECK(ready(a, POLLIN, 60000) == POLLIN); /* not all was read yet */
	CHECK(rrecv(a, c, sizeof c, MSG_WAITALL) == 3 && rrecv(a, c, 1, 0) == 0);
	CHECK(ready(a, POLLIN, 60000) == (POLLIN | POLLHUP));
	FAILS(rsend(a, c, 1, 0), EPIPE);
	CHECK(!rclose(a));
}

static volatile sig_atomic_t signals;

static void count(int sig)
{
	(void)sig;
	signals++;
}

static pthread_t waiting;
static volatile int returned;

/* interrupt sends signals until the call has returned: the first may come before it waits. */
static int interrupt(int fd)
{
	(void)fd;
	while (!returned) {
		pthread_kill(waiting, SIGUSR1);
		usleep(20000);
	}
	return 1;
}

static int send_after_signals(int fd)
{
	int i;

	for (i = 0; i < 3; i++) {
		pthread_kill(waiting, SIGUSR1);
		usleep(20000);
	}
	return send_one(fd);
}

/* A signal ends a wait unless the program has said that calls go on. */
static void test_signals(void)
{
	struct sigaction action = { .sa_handler = count };
	struct later later;
	pthread_t thread;
	int a, b;
	char c;

	make_pair(&a, &b);
	waiting = pthread_self();
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	later = (struct later){ -1, interrupt };
	returned = 0;
	CHECK(!pthread_create(&thread, NULL, acts, &later));
	FAILS(rrecv(a, &c, 1, 0), EINTR);
	returned = 1;
	CHECK(!pthread_join(thread, NULL));
	returned = 0;
	CHECK(!pthread_create(&thread, NULL, acts, &later));
	FAILS(rpoll(&(struct pollfd){ a, POLLIN, 0 }, 1, -1), EINTR);
	returned = 1;
	CHECK(!pthread_join(thread, NULL));

	action.sa_flags = SA_RESTART;
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	later = (struct later){ b, send_after_signals };
	CHECK(!pthread_create(&thread, NULL, acts, &later));
	CHECK(rrecv(a, &c, 1, 0) == 1);
	CHECK(!pthread_join(thread, NULL));
	close_pair(a, b);
}

static void *accepts(void *l) { return (void *)(intptr_t)raccept(*(int *)l, NULL, NULL); }
static void *polls(void *l) { return (void *)(intptr_t)ready(*(int *)l, POLLIN, -1); }

/* Urgent data are no reason for rselect to return if nobody asked for them. */
static void test_urgent(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0), to, r;
	struct timeval wait = { 0, 200000 };
	struct pollfd p = { .events = POLLPRI };
	socklen_t n = sizeof at;
	fd_set set;
	double start;

	CHECK(!bind(l, (struct sockaddr *)&at, n) && !listen(l, 1) && !getsockname(l, (struct sockaddr *)&at, &n));
	CHECK(!connect(from, (struct sockaddr *)&at, n) && (to = accept(l, NULL, NULL)) >= 0);
	CHECK(send(from, "!", 1, MSG_OOB) == 1);
	p.fd = to;
	CHECK(poll(&p, 1, 60000) == 1);
	CHECK((r = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	FD_ZERO(&set);
	FD_SET(to, &set);
	FD_SET(r, &set);
	start = now();
	CHECK(!rselect((to > r ? to : r) + 1, &set, NULL, NULL, &wait) && now() - start > 0.15);
	FD_SET(to, &set);
	CHECK(rselect(to + 1, NULL, NULL, &set, NULL) == 1 && FD_ISSET(to, &set));
	CHECK(!rclose(r) && !close(to) && !close(from) && !close(l));
}

/* A thread that is cancelled while it waits leaves nothing behind: what has its number later is
 * not written to. */
static void test_cancelled(void)
{
	void *(*waits[])(void *) = { accepts, polls };
	int l, s, files[32], way, i, accepted;
	struct sockaddr_in at;
	pthread_t thread;
	void *how;
	char c;

	for (way = 0; way < 2; way++) {
		l = listener(&at);
		CHECK(!pthread_create(&thread, NULL, waits[way], &l));
		usleep(100000); /* for it to sleep: if it does not yet, that is tried next time */
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &how) && how == PTHREAD_CANCELED);
		for (i = 0; i < 32; i++)
			CHECK((files[i] = memfd_create("file", MFD_CLOEXEC)) >= 0);
		CHECK((s = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
		FAILS(rconnect(s, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
		CHECK((accepted = raccept(l, NULL, NULL)) >= 0);
		for (i = 0; i < 32; i++)
			CHECK(!pread(files[i], &c, 1, 0) && !close(files[i]));
		close_pair(s, accepted);
		CHECK(!rclose(l));
	}
}

static void test_mapped(void)
{
	struct sockaddr_in at;
	int l, a, b;
	static char memory[8192];
	char c;

	l = listener(&at);
	set_option(l, SOL_RDMA, RDMA_IOMAPSIZE, 1);
	CHECK((a = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	FAILS(riomap(a, memory, sizeof memory, PROT_WRITE, 0, 0), EINVAL);
	set_option(a, SOL_RDMA, RDMA_IOMAPSIZE, 1);
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK((b = raccept(l, NULL, NULL)) >= 0 && ready(a, POLLOUT, 60000) == POLLOUT);
	CHECK(riomap(b, memory, sizeof memory, PROT_WRITE, 0, 4096) == 4096);
	FAILS(riomap(b, memory, 100, PROT_WRITE, 0, 0), ENOMEM); /* the peer has room for one */
	FAILS(riomap(b, NULL, 100, PROT_WRITE, 0, 0), EFAULT);
	CHECK(rsend(b, "m", 1, 0) == 1 && ready(a, POLLIN, 60000) == POLLIN && rrecv(a, &c, 1, 0) == 1);
	CHECK(riowrite(a, "hello", 5, 4096 + 100, 0) == 5 && riowrite(a, "hello", 5, 0, 0) == 0);
	CHECK(rsend(a, "d", 1, 0) == 1 && rrecv(b, &c, 1, 0) == 1);
	CHECK(!memcmp(memory + 100, "hello", 5));
	CHECK(!riounmap(b, memory, sizeof memory));
	FAILS(riounmap(b, memory, sizeof memory), EINVAL);
	CHECK(riomap(b, memory, 100, PROT_WRITE, 0, -1) == (off_t)(uintptr_t)memory);
	CHECK(!rclose(l));
	close_pair(a, b);

	/* The option may come after the peer, which finds room all the same. */
	l = listener(&at);
	CHECK((a = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	FAILS(rconnect(a, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
	CHECK(ready(a, POLLOUT, 60000) == POLLOUT);
	set_option(l, SOL_RDMA, RDMA_IOMAPSIZE, 1);
	CHECK((b = raccept(l, NULL, NULL)) >= 0);
	CHECK(riomap(a, memory, sizeof memory, PROT_WRITE, 0, 0) == 0);
	CHECK(rsend(a, "m", 1, 0) == 1 && ready(b, POLLIN, 60000) == POLLIN && rrecv(b, &c, 1, 0) == 1);
	CHECK(riowrite(b, "hello", 5, 200, 0) == 5 && rsend(b, "d", 1, 0) == 1);
	CHECK(ready(a, POLLIN, 60000) == POLLIN && rrecv(a, &c, 1, 0) == 1 && !memcmp(memory + 200, "hello", 5));
	CHECK(!rclose(l));
	close_pair(a, b);
}

static void test_datagrams(void)
{
	struct sockaddr_in at, from;
	socklen_t n = sizeof from;
	char buf[4096] = "";
	struct iovec out[2] = { { "da", 2 }, { "ta", 2 } }, in[2] = { { buf, 3 }, { buf + 10, 10 } };
	struct msghdr msg = { .msg_iov = out, .msg_iovlen = 2 }, got = { .msg_iov = in, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = n };
	int a, b, i;

	CHECK((a = rsocket(AF_INET, SOCK_DGRAM, 0)) >= 0 && (b = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP)) >= 0);
	CHECK(!rbind(b, (struct sockaddr *)&here, sizeof here));
	at = name_of(b, rgetsockname);
	CHECK(at.sin_port);
	FAILS(rsend(a, "x", 1, 0), EDESTADDRREQ);
	FAILS(rrecv(b, buf, 1, MSG_DONTWAIT), EAGAIN);
	FAILS(rlisten(b, 1), EOPNOTSUPP);
	CHECK(!ready(b, POLLIN, 10) && ready(b, POLLOUT, 0) == POLLOUT);
	for (i = 0; i < 50; i++) { /* one at a time, so that none is lost */
		CHECK(rsendto(a, &i, sizeof i, 0, (struct sockaddr *)&at, sizeof at) == sizeof i);
		CHECK(ready(b, POLLIN, 60000) == POLLIN);
		CHECK(rrecv(b, buf, sizeof buf, MSG_PEEK) == sizeof i);
		n = sizeof from;
		CHECK(rrecvfrom(b, buf, sizeof buf, 0, (struct sockaddr *)&from, &n) == sizeof i && !memcmp(buf, &i, sizeof i));
		CHECK(from.sin_port == name_of(a, rgetsockname).sin_port);
		CHECK(rsendto(b, "ack", 3, 0, (struct sockaddr *)&from, n) == 3 && rrecv(a, buf, sizeof buf, 0) == 3);
	}
	CHECK(!rconnect(a, (struct sockaddr *)&at, sizeof at) && name_of(a, rgetpeername).sin_port == at.sin_port);
	CHECK(rsendmsg(a, &msg, 0) == 4);
	CHECK(rrecvmsg(b, &got, MSG_WAITALL) == 4); /* which means nothing: all of one datagram is there */
	CHECK(!memcmp(buf, "dat", 3) && buf[10] == 'a');
	FAILS(rsend(a, buf, sizeof buf, 0), EMSGSIZE);
	close_pair(a, b);
}

static void *sends_on(void *arg)
{
	static char p[BIG];

	while (rsend(*(int *)arg, p, BIG, 0) > 0)
		;
	pause(); /* until the process has ended */
	return NULL;
}

/* A process of its own: what it is to do arrives with the port to connect to. */
static void child(int orders)
{
	struct order { char what; struct sockaddr_in to; } o;
	static char data[1 << 20];
	pthread_t thread;
	int s;

	while (read(orders, &o, sizeof o) == sizeof o) {
		CHECK((s = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
		CHECK(!rconnect(s, (struct sockaddr *)&o.to, sizeof o.to));
		CHECK(rsend(s, "up", 2, 0) == 2);
		if (o.what == 'x') { /* exit in the middle of a transfer */
			CHECK(!pthread_create(&thread, NULL, sends_on, &s));
			CHECK(rrecv(s, data, 1, 0) == 1);
			exit(0);
		}
		for (;;)
			pause();
	}
	_exit(0);
}

static void order(int to, char what, struct sockaddr_in at)
{
	struct { char what; struct sockaddr_in to; } o = { what, at };

	CHECK(write(to, &o, sizeof o) == sizeof o);
}

/* Peers that go without a word: both before this process has devices. */
static void test_peers(pid_t *peers, int *orders)
{
	static char data[1 << 20];
	struct sockaddr_in at;
	int l = listener(&at), s, status;
	ssize_t n;

	set_option(l, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(l, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	order(orders[0], 'k', at);
	CHECK((s = raccept(l, NULL, NULL)) >= 0);
	CHECK(rrecv(s, data, 2, MSG_WAITALL) == 2);
	CHECK(!kill(peers[0], SIGKILL));
	n = rrecv(s, data, 1, 0);
	CHECK(n == -1 && (errno == ETIMEDOUT || errno == ECONNRESET));
	CHECK(ready(s, POLLIN, 0) & (POLLERR | POLLHUP));
	CHECK(!rclose(s));

	order(orders[1], 'x', at);
	CHECK((s = raccept(l, NULL, NULL)) >= 0);
	CHECK(rrecv(s, data, 2, MSG_WAITALL) == 2 && rsend(s, "x", 1, 0) == 1);
	while ((n = rrecv(s, data, sizeof data, 0)) > 0)
		;
	CHECK(n == 0 || errno == ETIMEDOUT || errno == ECONNRESET);
	CHECK(waitpid(peers[1], &status, 0) == peers[1] && WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK(waitpid(peers[0], &status, 0) == peers[0] && WIFSIGNALED(status));
	CHECK(!rclose(s) && !rclose(l));
}

/* A thread connects to itself: the connection is there before raccept. */
static void alone(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET };
	struct pollfd p = { .events = POLLIN };
	socklen_t size = sizeof here;
	int l, s, t;
	char c;

	CHECK(inet_pton(AF_INET, strchr(getenv("RAMJET_DEVICES"), ':') + 1, &here.sin_addr) == 1);
	CHECK((l = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rbind(l, (struct sockaddr *)&here, sizeof here));
	CHECK(!rgetsockname(l, (struct sockaddr *)&here, &size) && !rlisten(l, 1));
	CHECK((s = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rconnect(s, (struct sockaddr *)&here, sizeof here));
	CHECK(rsend(s, "x", 1, 0) == 1);
	p.fd = l;
	CHECK(rpoll(&p, 1, -1) == 1 && (t = raccept(l, NULL, NULL)) >= 0);
	CHECK(rrecv(t, &c, 1, 0) == 1 && c == 'x' && !rclose(s) && !rrecv(t, &c, 1, 0) && !rclose(t));
	CHECK((s = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rconnect(s, (struct sockaddr *)&here, sizeof here));
	CHECK(!rclose(l)); /* ends what was not accepted */
	CHECK(rrecv(s, &c, 1, 0) <= 0 && !rclose(s));
}

int main(void)
{
	const char *device = strchr(getenv("RAMJET_DEVICES"), ':') + 1;
	pid_t peers[2];
	int orders[2], fds[2], i;

	alarm(170); /* whatever happens */
	here = (struct sockaddr_in){ .sin_family = AF_INET };
	CHECK(inet_pton(AF_INET, device, &here.sin_addr) == 1);
	for (i = 0; i < 2; i++) {
		CHECK(!pipe2(fds, O_CLOEXEC) && (peers[i] = fork()) >= 0);
		if (!peers[i]) {
			close(fds[1]);
			child(fds[0]);
		}
		close(fds[0]);
		orders[i] = fds[1];
	}
	test_errors();
	test_options();
	test_connecting();
	test_connect();
	test_lists();
	test_full();
	test_mixed();
	test_closing();
	test_signals();
	test_urgent();
	test_cancelled();
	test_mapped();
	test_datagrams();
	test_peers(peers, orders);
	alone();
	return 0;
}
