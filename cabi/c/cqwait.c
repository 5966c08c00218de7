/* SPDX-License-Identifier: Apache-2.0 */

/* ibv_get_cq_event. A thread that waits moves the data: it sleeps at the device's descriptors, and at the channel's,
 * which other threads write to. It sleeps here and not in Go: signals and cancellation then end the sleep as they end read. */

#define _GNU_SOURCE
#include "ramjet.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

/* expect tells the checker of a thread that is about to wait, and returns whether it is. */
static int expect(const struct rj_calls *r, struct rj_channel *c)
{
	struct pollfd p = { c->channel.fd, POLLIN, 0 };
	int waits = !poll(&p, 1, 0) && !(fcntl(p.fd, F_GETFL) & O_NONBLOCK);

	if (waits)
		INSIDE(r->check_wait(c->handle, 1));
	return waits;
}

static void leave(void *wait_of)
{
	const struct rj_calls *r = rj_loaded;

	if (r && !rj_inside)
		INSIDE(r->leave_completion(*(uint64_t *)wait_of));
}

static int asleep(struct rj_wait *how, uint64_t channel)
{
	int n;

	pthread_cleanup_push(leave, &channel);
	n = ppoll(how->fds, how->n, how->limited ? &how->limit : NULL, NULL);
	pthread_cleanup_pop(0);
	if (n <= 0)
		how->fds[0].revents = 0;
	return n;
}

/* restarted reports whether read would have gone on after a signal. The system does not tell which it was: all handlers of
 * the program, except for handlers of faults, would have to be installed with SA_RESTART. */
static int restarted(void)
{
	struct sigaction a;
	int sig;

	for (sig = 1; sig < NSIG; sig++) {
		if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP || sig == SIGABRT || sig == SIGSYS)
			continue;
		if (!sigaction(sig, NULL, &a) && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART))
			return 0;
	}
	return 1;
}

/* await moves data until there is an event. It returns 0 if the thread is to read the channel's descriptor instead, and -1
 * with errno set if a signal ends the call. */
static int await(const struct rj_calls *r, uint64_t channel, int fd, struct rj_cq **q)
{
	struct rj_wait how = { .n = 0 };
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || flags & O_NONBLOCK)
		return 0;
	for (;;) {
		*q = GO(r->await_completion(channel, &how), NULL);
		if (*q || !how.n)
			return *q != NULL;
		if (asleep(&how, channel) < 0 && (errno != EINTR || !restarted())) {
			int err = errno;

			leave(&channel);
			errno = err;
			return err == EINTR ? -1 : 0;
		}
	}
}

/* get returns the queue of the next event, or NULL with errno set. */
static struct rj_cq *get(const struct rj_calls *r, uint64_t channel, int fd)
{
	struct rj_cq *q = NULL;
	uint64_t one;

	if (await(r, channel, fd, &q) < 0)
		return NULL;
	while (!q) {
		if (read(fd, &one, sizeof one) != sizeof one)
			return NULL;
		q = GO(r->next_completion(channel), NULL);
	}
	return q;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **cq_context)
{
	const struct rj_calls *r = rj();
	uint64_t handle = HIDDEN_HANDLE(rj_channel, channel);
	struct rj_cq *q;
	int waits, err;

	if (!r || rj_inside)
		return r ? rj_failed(EDEADLK) : -1;
	waits = rj_check_on && expect(r, (struct rj_channel *)channel);
	q = get(r, handle, channel->fd);
	if (!q) {
		err = errno;
		if (waits)
			INSIDE(r->check_wait(handle, 0));
		errno = err;
		return -1;
	}
	*out = (struct ibv_cq *)q;
	*cq_context = q->cq.cq_context;
	return 0;
}
