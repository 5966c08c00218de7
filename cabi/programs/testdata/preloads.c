/* SPDX-License-Identifier: Apache-2.0 */

/* With librspreload.so: what waits with a mask of signals takes those that came before it slept, and the calls
 * that compilers put in the place of others know rsockets, too. */

#include "kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
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
	alarm(60);
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

	alarm(60);
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

	CHECK(dup3(a, listener, O_CLOEXEC) == -1 && errno == ENOTSUP); /* an rsocket has one number */
	CHECK(!pipe(pipes) && dup3(pipes[1], b, O_CLOEXEC) == b);
	CHECK(write(b, "y", 1) == 1 && read(pipes[0], &c, 1) == 1 && c == 'y');
	CHECK(!recv(a, &c, 1, 0)); /* b has ended */
	CHECK(!close(a) && !close(b) && !close(listener));
	return 0;
}
