/* SPDX-License-Identifier: Apache-2.0 */

/* With librspreload.so: what waits with a mask of signals takes those that came before it slept, and the calls
 * that compilers put in the place of others know rsockets, too. */

#include "kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t caught;

static void catch(int signal)
{
	(void)signal;
	caught++;
}

/* waiting: a signal that is blocked but in the call ends it. */
static void waiting(int fd)
{
	const struct timespec never = { 0 }, always = { 1 << 29, 0 };
	const struct timespec *timeouts[] = { NULL, &never, &always };
	struct pollfd p = { fd, POLLIN, 0 };
	sigset_t block, none;
	fd_set set;
	int i;

	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	CHECK(!sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = catch }, NULL));
	CHECK(!pthread_sigmask(SIG_BLOCK, &block, NULL));
	for (i = 0; i < 3; i++) {
		caught = 0;
		CHECK(!raise(SIGUSR1) && !caught);
		CHECK(ppoll(&p, 1, timeouts[i], &none) == -1 && errno == EINTR && caught == 1);
		FD_ZERO(&set);
		FD_SET(fd, &set);
		CHECK(!raise(SIGUSR1) && caught == 1);
		CHECK(pselect(fd + 1, &set, NULL, NULL, timeouts[i], &none) == -1 && errno == EINTR && caught == 2);
	}
	CHECK(!ppoll(&p, 1, &never, &none) && !ppoll(&p, 1, &never, NULL));
	CHECK(!pselect(fd + 1, &set, NULL, NULL, &never, &none) && !FD_ISSET(fd, &set));
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &none) && sigismember(&none, SIGUSR1));

	CHECK(!sigaction(SIGALRM, &(struct sigaction){ .sa_handler = catch }, NULL));
	CHECK(!setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 50000 }, { 0, 50000 } }, NULL));
	FD_SET(fd, &set);
	CHECK(select(fd + 1, &set, NULL, NULL, &(struct timeval){ 1 << 29, 0 }) == -1 && errno == EINTR); /* not at once */
	CHECK(!setitimer(ITIMER_REAL, &(struct itimerval){ { 0 } }, NULL));
	CHECK(!sigaction(SIGALRM, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL));
	alarm(170);
}

/* sending: a file, through the call of programs with large files. */
static void sending(int from, int to)
{
	char got[5];
	off64_t at = 1;
	int file = memfd_create("file", MFD_CLOEXEC);

	CHECK(file >= 0 && write(file, "hello", 5) == 5);
	CHECK(sendfile64(from, file, &at, 100) == 4 && at == 5);
	CHECK(recv(to, got, 4, MSG_WAITALL) == 4 && !memcmp(got, "ello", 4));
	CHECK(!close(file));
}

/* becoming: what becomes a TCP socket is closed on exec as it would have been. */
static void becoming(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int i, s;

	for (i = 0; i < 3; i++) {
		CHECK((s = socket(AF_INET, SOCK_STREAM | (i == 1 ? SOCK_CLOEXEC : 0), 0)) >= 0);
		CHECK(i < 2 || !fcntl(s, F_SETFD, FD_CLOEXEC));
		CHECK(!bind(s, (struct sockaddr *)&any, sizeof any));
		CHECK(fcntl(s, F_GETFD) == (i ? FD_CLOEXEC : 0) && !close(s));
	}
}

/* duplicates: a socket lives as long as one of its numbers, and nothing is closed by a call that fails. */
static void duplicates(int from, int to)
{
	int spare = open("/dev/null", O_RDONLY), d, e;
	char c;

	CHECK(dup2(from, from) == from && dup2(-1, from) == -1 && errno == EBADF);
	CHECK(dup3(from, from, 0) == -1 && errno == EINVAL && dup3(spare, from, 1) == -1 && errno == EINVAL);
	CHECK(dup2(from, -1) == -1 && errno == EBADF);
	CHECK(send(from, "1", 1, 0) == 1 && recv(to, &c, 1, 0) == 1 && c == '1'); /* it is still there */
	CHECK((d = dup(from)) >= 0 && (e = fcntl(from, F_DUPFD_CLOEXEC, 100)) >= 100);
	CHECK(!fcntl(d, F_SETFL, O_NONBLOCK) && fcntl(e, F_GETFL) & O_NONBLOCK && fcntl(e, F_GETFD) == FD_CLOEXEC);
	CHECK(recv(from, &c, 1, 0) == -1 && errno == EAGAIN && !fcntl(from, F_SETFL, 0));
	CHECK(dup2(e, spare) == spare && !close(e) && !close(d));
	CHECK(send(spare, "2", 1, 0) == 1 && recv(to, &c, 1, 0) == 1 && c == '2' && !close(spare));
	CHECK(send(from, "3", 1, 0) == 1 && recv(to, &c, 1, 0) == 1 && c == '3');
	CHECK((d = dup(to)) >= 0 && dup2(from, d) == d); /* one number less of the one, one more of the other */
	CHECK(send(d, "4", 1, 0) == 1 && recv(to, &c, 1, 0) == 1 && c == '4' && !close(d));
}

static uint32_t events_of(int ep, int timeout, uint64_t data)
{
	struct epoll_event e[4];
	uint32_t found = 0;
	int i, n = epoll_wait(ep, e, 4, timeout);

	CHECK(n >= 0);
	for (i = 0; i < n; i++)
		if (e[i].data.u64 == data)
			found = e[i].events;
	return found;
}

static void *sends_later(void *fd)
{
	usleep(20000);
	CHECK(write(*(int *)fd, "z", 1) == 1);
	return NULL;
}

/* epolls: level and edge triggered, with other descriptors, in other epolls, and woken by another thread. */
static void epolls(int from, int to, int listener)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT, .data.u64 = 1 }, got;
	const struct timespec never = { 0 };
	int ep = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create(1), pipes[2], waiting;
	pthread_t thread;
	ssize_t n, left = 0;
	char c[2];
	sigset_t none;

	CHECK(ep >= 0 && outer >= 0 && !pipe(pipes));
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, to, &e) && epoll_ctl(ep, EPOLL_CTL_ADD, to, &e) == -1 && errno == EEXIST);
	CHECK(events_of(ep, -1, 1) == EPOLLOUT && events_of(ep, 0, 1) == EPOLLOUT);
	e.events = EPOLLIN;
	CHECK(!epoll_ctl(ep, EPOLL_CTL_MOD, to, &e) && !events_of(ep, 0, 1));
	CHECK(!epoll_ctl(outer, EPOLL_CTL_ADD, ep, &(struct epoll_event){ EPOLLIN, { .u64 = 9 } }));
	e.data.u64 = 2;
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, pipes[0], &e));
	e.data.u64 = 3;
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e) && !events_of(ep, 1, 3));

	CHECK(!pthread_create(&thread, NULL, sends_later, &from));
	CHECK(events_of(outer, -1, 9) == EPOLLIN && events_of(ep, -1, 1) == EPOLLIN && events_of(ep, -1, 1) == EPOLLIN);
	CHECK(!pthread_join(thread, NULL) && recv(to, c, 1, 0) == 1 && !events_of(ep, 0, 1));
	CHECK(!pthread_create(&thread, NULL, sends_later, &pipes[1]));
	CHECK(events_of(ep, -1, 2) == EPOLLIN && !pthread_join(thread, NULL) && read(pipes[0], c, 1) == 1);

	e = (struct epoll_event){ .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = 4 };
	CHECK(!epoll_ctl(ep, EPOLL_CTL_MOD, to, &e) && events_of(ep, -1, 4) == EPOLLOUT && !events_of(ep, 0, 4));
	CHECK(send(from, "ab", 2, 0) == 2 && events_of(ep, -1, 4) & EPOLLIN && !events_of(ep, 20, 4));
	CHECK(recv(to, c, 1, 0) == 1 && events_of(ep, -1, 4) & EPOLLIN && !events_of(ep, 0, 4));
	CHECK(recv(to, c, 1, 0) == 1 && recv(to, c, 1, MSG_DONTWAIT) == -1 && !events_of(ep, 0, 4));
	CHECK(send(from, "c", 1, 0) == 1 && events_of(ep, -1, 4) & EPOLLIN);
	while ((n = send(to, c, sizeof c, MSG_DONTWAIT)) > 0)
		left += n;
	CHECK(errno == EAGAIN);
	while (!(events_of(ep, 0, 4) & EPOLLOUT)) /* again, as soon as it can be */
		if ((n = recv(from, c, sizeof c, MSG_DONTWAIT)) > 0)
			left -= n;
	for (; left > 0; left -= n) /* some of it may still be on its way */
		CHECK((n = recv(from, c, sizeof c, 0)) > 0);
	e.events = EPOLLOUT | EPOLLONESHOT;
	CHECK(!epoll_ctl(ep, EPOLL_CTL_MOD, to, &e) && events_of(ep, -1, 4) == EPOLLOUT && !events_of(ep, 0, 4));
	CHECK(!epoll_ctl(ep, EPOLL_CTL_MOD, to, &e) && events_of(ep, -1, 4) == EPOLLOUT);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_DEL, to, NULL) && epoll_ctl(ep, EPOLL_CTL_DEL, to, NULL) == -1 && errno == ENOENT);

	sigemptyset(&none);
	CHECK(!raise(SIGUSR1) && epoll_pwait(ep, &got, 1, -1, &none) == -1 && errno == EINTR); /* blocked since waiting */
	CHECK(!raise(SIGUSR1) && epoll_pwait(ep, &got, 1, 0, &none) == -1 && errno == EINTR);
	CHECK(!epoll_pwait2(ep, &got, 1, &never, NULL));
	CHECK(epoll_wait(ep, &got, 0, 0) == -1 && errno == EINVAL && epoll_ctl(ep, 77, to, &e) == -1 && errno == EINVAL);
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, to, NULL) == -1 && errno == EFAULT);
	CHECK(!ioctl(to, FIONREAD, &waiting) && waiting == 1 && recv(to, c, 1, 0) == 1 && *c == 'c');
	CHECK(!close(pipes[0]) && !close(pipes[1]) && !close(outer) && !close(ep));
}

static struct sockaddr_in at = { .sin_family = AF_INET };
static int a;
static volatile int dialled;

static void *dial(void *unused)
{
	CHECK((a = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && !connect(a, (struct sockaddr *)&at, sizeof at));
	dialled = 1;
	return unused;
}

int main(int argc, char **argv)
{
	struct pollfd p = { -1, POLLIN, 0 };
	socklen_t size = sizeof at;
	int listener, b, pipes[2];
	pthread_t thread;
	char c;

	alarm(170);
	if (argc < 3) {
		CHECK(!setenv("LD_PRELOAD", "librspreload.so", 1));
		return execl("/proc/self/exe", argv[0], "again", strrchr(getenv("RAMJET_DEVICES"), ':') + 1, NULL);
	}
	CHECK(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
	CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && !bind(listener, (struct sockaddr *)&at, size));
	CHECK(!listen(listener, 1) && !getsockname(listener, (struct sockaddr *)&at, &size));
	CHECK(!sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = catch, .sa_flags = SA_RESTART }, NULL));
	CHECK(!pthread_create(&thread, NULL, dial, NULL));
	while (!dialled) { /* which such signals do not end */
		CHECK(!pthread_kill(thread, SIGUSR2));
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	p.fd = listener;
	CHECK(ppoll(&p, 1, NULL, NULL) == 1);
	CHECK((b = accept(listener, NULL, NULL)) >= 0);
	CHECK(!pthread_join(thread, NULL));

	becoming();
	waiting(b);
	p.fd = b;
	CHECK(send(a, "x", 1, 0) == 1 && ppoll(&p, 1, NULL, NULL) == 1 && recv(b, &c, 1, 0) == 1);
	sending(a, b);

	duplicates(a, b);
	epolls(a, b, listener);
	CHECK(!pipe(pipes) && dup3(pipes[1], b, O_CLOEXEC) == b);
	CHECK(write(b, "y", 1) == 1 && read(pipes[0], &c, 1) == 1 && c == 'y');
	CHECK(!recv(a, &c, 1, 0)); /* b has ended */
	CHECK(!close(a) && !close(b) && !close(listener));
	return 0;
}
