/* SPDX-License-Identifier: Apache-2.0 */

/* The declarations that the rsockets' files share. */
#ifndef RAMJET_RS_H
#define RAMJET_RS_H

#define RJ_CM
#include "ramjet.h"

#include <limits.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <time.h>

int rj_do_rfcntl(int fd, int command, int value); /* see rslog.c */
#ifndef RJ_UNNAMED
#include "rslogged.h"
#endif

/* No call into Go waits: a thread that has to wait sleeps here, on an eventfd of its own that
 * the sockets it waits for write to. */
int rj_rs_sleep(int fd, short events); /* -1 with errno set if a signal came */

/* How long a thread polls before it sleeps: waking a processor that has gone idle takes longer
 * than a round trip. */
#define RJ_RS_SPIN_NS 50000

int64_t rj_rs_now(void); /* nanoseconds */
int rj_rs_remaining(int64_t end, int timeout); /* milliseconds until then, rounded up; -1: there is no timeout */

/* repoll.c; the headers have them since rdma-core 65 */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int room, int timeout);
int rj_repoll_closed(int fd);
void rj_repoll_became(int fd);

/* A thread that asks without waiting, again and again, gives way to others after a while: it may
 * wait for one of them. */
void rj_rs_found(int something);

/* rj_rs returns the Go half, or NULL with errno EBADF if there was no socket yet. */
static inline const struct rj_calls *rj_rs(void)
{
	const struct rj_calls *c = __atomic_load_n(&rj_loaded, __ATOMIC_ACQUIRE);

	if (!c)
		errno = EBADF;
	return c;
}

/* rj_rs_result converts a result of the Go half to the convention of system calls. */
static inline ssize_t rj_rs_result(ssize_t r)
{
	if (r >= 0)
		return r;
	errno = -r;
	return -1;
}

/* rj_rs_timeout converts a timeout to poll's milliseconds, rounded up and at most INT_MAX. */
static inline int rj_rs_timeout(time_t seconds, long nanoseconds)
{
	const time_t most = INT_MAX / 1000 - 1;

	return seconds > most ? INT_MAX : seconds * 1000 + (nanoseconds + 999999) / 1000000;
}

#endif
