/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm.so.1: waiting for rsockets, and for other file descriptors with them. */

#include "rs.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static __thread int waker = -1;
static pthread_key_t waker_key;
static pthread_once_t waker_once = PTHREAD_ONCE_INIT;

static void close_waker(void *unused)
{
	(void)unused;
	close(waker);
	waker = -1;
}

/* The parent's eventfd would be woken by the parent's sockets. */
static void in_child(void)
{
	if (waker >= 0)
		close_waker(NULL);
}

static void make_key(void)
{
	pthread_key_create(&waker_key, close_waker);
	pthread_atfork(NULL, NULL, in_child);
}

/* Nonzero while this thread sleeps. A handler of a signal that has to wait then has an eventfd of its own. */
static __thread volatile sig_atomic_t sleeping;

/* my_waker returns an eventfd for this thread to sleep at, or -1 with errno set. */
static int my_waker(void)
{
	if (sleeping)
		return eventfd(0, EFD_CLOEXEC);
	if (waker < 0) {
		pthread_once(&waker_once, make_key);
		waker = eventfd(0, EFD_CLOEXEC);
		if (waker >= 0)
			pthread_setspecific(waker_key, &waker_key);
	}
	return waker;
}

int64_t rj_rs_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* How many calls in a row may find nothing before the thread yields. */
#define PATIENCE 100

void rj_rs_found(int something)
{
	static __thread unsigned int asked;

	if (something)
		asked = 0;
	else if (++asked > PATIENCE)
		sched_yield();
}

/* Sockets that write to a thread's waker, until disarm: also if the thread is cancelled while it
 * waits, as the number of its waker means something else afterwards. */
struct armed {
	struct pollfd *fds;
	nfds_t n;
	int waker;
};

static void disarm(void *arg)
{
	const struct armed *a = arg;

	INSIDE(rj_rs()->rs_disarm(a->fds, a->n, a->waker));
	sleeping--;
	if (a->waker != waker)
		close(a->waker);
}

/* rj_rs_sleep sleeps in read, which goes on after a signal if the program has said so. */
int rj_rs_sleep(int fd, short events)
{
	const struct rj_calls *c = rj_rs();
	struct pollfd p = { fd, events, 0 };
	struct armed armed = { &p, 1, -1 };
	int64_t end = rj_rs_now() + RJ_RS_SPIN_NS;
	uint64_t count;
	int rest, err = 0;

	if (!c)
		return -1;
	do {
		if (GO(c->rs_poll(&p, 1, -1, &rest), 1) || rest)
			return 0;
	} while (rj_rs_now() < end);
	if ((armed.waker = my_waker()) < 0)
		return -1;
	sleeping++;
	pthread_cleanup_push(disarm, &armed);
	if (!GO(c->rs_poll(&p, 1, armed.waker, &rest), 1) && !rest)
		err = read(armed.waker, &count, sizeof count) < 0 ? errno : 0;
	pthread_cleanup_pop(1);
	errno = err;
	return err ? -1 : 0;
}

/* look checks which descriptors are ready now. others is a copy of fds with -1 for rsockets. */
static int look(struct pollfd *fds, nfds_t n, struct pollfd *others, int with)
{
	int rest = 0, ready = GO(rj_rs()->rs_poll(fds, n, with, &rest), 0);
	nfds_t i;

	if (!rest || poll(others, n, 0) <= 0)
		return ready;
	for (i = 0; i < n; i++)
		if (others[i].revents) {
			fds[i].revents = others[i].revents;
			ready++;
		}
	return ready;
}

int rj_rs_remaining(int64_t end, int timeout)
{
	int64_t left = end - rj_rs_now();

	return timeout < 0 ? -1 : left <= 0 ? 0 : (left + 999999) / 1000000;
}

static int wait_for_all(struct pollfd *fds, nfds_t n, struct pollfd *others, int timeout)
{
	struct armed armed = { fds, n, -1 };
	int64_t start = rj_rs_now(), end = start + timeout * 1000000LL;
	uint64_t count;
	int ready, r = 1, err = 0;

	do {
		ready = look(fds, n, others, -1);
		if (ready || !timeout)
			return ready;
	} while (rj_rs_now() < start + RJ_RS_SPIN_NS);
	while (!ready && r > 0) {
		if ((armed.waker = my_waker()) < 0)
			return -1;
		sleeping++;
		pthread_cleanup_push(disarm, &armed);
		ready = look(fds, n, others, armed.waker);
		if (!ready) {
			others[n] = (struct pollfd){ armed.waker, POLLIN, 0 };
			r = poll(others, n + 1, rj_rs_remaining(end, timeout));
			err = errno;
			if (r > 0 && others[n].revents && read(armed.waker, &count, sizeof count) < 0)
				err = errno;
		}
		pthread_cleanup_pop(1);
		if (!ready && r >= 0)
			ready = look(fds, n, others, -1);
	}
	if (!ready && r < 0) {
		errno = err;
		return -1;
	}
	return ready;
}

static void free_others(void *others) { free(others); }

EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct rj_calls *c = __atomic_load_n(&rj_loaded, __ATOMIC_ACQUIRE);
	struct pollfd few[65], *others = few;
	int rest = 0, ready;

	if (!c)
		return poll(fds, n, timeout);
	if (n > INT_MAX || (n && !fds)) {
		errno = fds ? EINVAL : EFAULT;
		return -1;
	}
	ready = GO(c->rs_poll(fds, n, -1, &rest), -EDEADLK);
	if (ready < 0)
		return rj_rs_result(ready);
	if ((nfds_t)rest == n)
		return poll(fds, n, timeout);
	if (!rest && (ready || !timeout)) {
		rj_rs_found(ready);
		return ready;
	}
	if (n + 1 > sizeof few / sizeof *few && !(others = calloc(n + 1, sizeof *others))) {
		errno = ENOMEM;
		return -1;
	}
	INSIDE(c->rs_split(fds, n, others));
	pthread_cleanup_push(free_others, others == few ? NULL : others);
	ready = wait_for_all(fds, n, others, timeout);
	pthread_cleanup_pop(1);
	return ready;
}

EXPORT int rselect(int n, fd_set *readers, fd_set *writers, fd_set *exceptions, struct timeval *timeout)
{
	const long most = sysconf(_SC_OPEN_MAX);
	struct pollfd *fds;
	int fd, count = 0, ready, i;

	if (most > 0 && n > most) /* as the system does */
		n = most;
	fds = calloc(n > 0 ? n : 1, sizeof *fds);

	if (!fds || n < 0) {
		free(fds);
		errno = n < 0 ? EINVAL : ENOMEM;
		return -1;
	}
	for (fd = 0; fd < n; fd++) {
		int in = readers && FD_ISSET(fd, readers), out = writers && FD_ISSET(fd, writers);
		int urgent = exceptions && FD_ISSET(fd, exceptions);

		if (in || out || urgent)
			fds[count++] = (struct pollfd){ fd, (in ? POLLIN : 0) | (out ? POLLOUT : 0) | (urgent ? POLLPRI : 0), 0 };
	}
	ready = rpoll(fds, count, timeout ? rj_rs_timeout(timeout->tv_sec, timeout->tv_usec * 1000) : -1);
	for (i = 0; ready > 0 && i < count; i++)
		if (fds[i].revents & POLLNVAL) {
			ready = -1;
			errno = EBADF;
		}
	if (ready < 0) {
		free(fds);
		return -1;
	}
	for (ready = i = 0; i < count; i++) {
		short got = fds[i].revents;

#define ANSWER(set, bits) do { \
		if ((set) && FD_ISSET(fds[i].fd, (set))) { \
			if (got & (bits)) \
				ready++; \
			else \
				FD_CLR(fds[i].fd, (set)); \
		} } while (0)
		ANSWER(readers, POLLIN | POLLHUP | POLLERR);
		ANSWER(writers, POLLOUT | POLLERR);
		ANSWER(exceptions, POLLPRI);
	}
	free(fds);
	return ready;
}
