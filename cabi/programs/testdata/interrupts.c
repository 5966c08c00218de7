/* SPDX-License-Identifier: Apache-2.0 */

/* The handler of a signal uses an rsocket: while its thread is in the library that is refused, with EDEADLK, and neither
 * the end nor a wait for itself. While it sleeps there, the handler gets through, and the sleep goes on. */

#include "kit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>

static int a[2], b[2]; /* connections */
static volatile sig_atomic_t done, refused, wrong, stop, woken;

static void connected(int s[2])
{
	struct sockaddr_in here = { .sin_family = AF_INET };
	socklen_t size = sizeof here;
	int l;

	CHECK(inet_pton(AF_INET, strchr(getenv("RAMJET_DEVICES"), ':') + 1, &here.sin_addr) == 1);
	CHECK((l = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rbind(l, (struct sockaddr *)&here, sizeof here));
	CHECK(!rgetsockname(l, (struct sockaddr *)&here, &size) && !rlisten(l, 1));
	CHECK((s[0] = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rconnect(s[0], (struct sockaddr *)&here, size));
	CHECK((s[1] = raccept(l, NULL, NULL)) >= 0 && !rclose(l));
}

static void uses(int sig)
{
	int err = errno, n;
	struct pollfd p = { b[1], POLLIN, 0 };
	char c;

	(void)sig;
	n = rsend(b[0], "x", 1, MSG_DONTWAIT);
	if (n < 0 && errno == EDEADLK)
		refused++;
	else if (n != 1 && errno != EAGAIN)
		wrong = errno;
	else
		done++;
	if (rrecv(b[1], &c, 1, MSG_DONTWAIT) < 0 && errno != EDEADLK && errno != EAGAIN)
		wrong = errno;
	if (rpoll(&p, 1, 0) < 0 && errno != EDEADLK)
		wrong = errno;
	if (rclose(9999) == 0 || (errno != EBADF && errno != EDEADLK))
		wrong = errno;
	errno = err;
}

static void wakes(int sig)
{
	struct pollfd p = { b[1], POLLIN, 0 };
	int err = errno;
	ssize_t n = rsend(b[0], "y", 1, 0);
	char c;

	(void)sig;
	woken = n >= 0 || errno != EDEADLK ? 1 : -1; /* -1: its thread does not sleep yet */
	/* It waits itself, in the middle of a wait. */
	if (woken > 0 && (n != 1 || rpoll(&p, 1, -1) != 1 || rrecv(b[1], &c, 1, 0) != 1 || rsend(a[0], "z", 1, 0) != 1))
		wrong = errno;
	errno = err;
}

static void *interrupts(void *thread)
{
	while (!stop) {
		CHECK(!pthread_kill(*(pthread_t *)thread, SIGUSR1));
		usleep(100);
	}
	return NULL;
}

static void *wakes_later(void *thread)
{
	do {
		usleep(50000); /* it sleeps by now, as a rule */
		woken = 0;
		CHECK(!pthread_kill(*(pthread_t *)thread, SIGUSR2));
		while (!woken)
			usleep(1000);
	} while (woken < 0);
	return NULL;
}

int main(void)
{
	pthread_t me = pthread_self(), other;
	char c;

	alarm(170);
	connected(a);
	connected(b);
	CHECK(!sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = uses, .sa_flags = SA_RESTART | SA_ONSTACK }, NULL));
	CHECK(!sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = wakes, .sa_flags = SA_RESTART | SA_ONSTACK }, NULL));
	CHECK(!pthread_create(&other, NULL, interrupts, &me));
	while (!wrong && (!refused || !done)) {
		struct pollfd p = { a[1], POLLIN, 0 };

		CHECK(rsend(a[0], "a", 1, 0) == 1);
		while (rpoll(&p, 1, -1) != 1)
			CHECK(errno == EINTR);
		CHECK(rrecv(a[1], &c, 1, 0) == 1 && c == 'a');
	}
	stop = 1;
	CHECK(!pthread_join(other, NULL));
	errno = wrong;
	CHECK(!wrong);
	while (rrecv(b[1], &c, 1, MSG_DONTWAIT) == 1)
		;
	CHECK(!pthread_create(&other, NULL, wakes_later, &me));
	CHECK(rrecv(a[1], &c, 1, 0) == 1 && c == 'z' && !wrong);
	CHECK(!pthread_join(other, NULL));
	return 0;
}
