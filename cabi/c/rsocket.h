/* SPDX-License-Identifier: Apache-2.0 */

/* What the rsockets' files share. */
#ifndef RAMJET_RSOCKET_H
#define RAMJET_RSOCKET_H

#include "ramjet.h"

#include <rdma/rsocket.h>

/* No call into Go waits: a thread that has to wait sleeps here, on an eventfd of its own that
 * the sockets it waits for write to. */
int rj_rs_sleep(int fd, short events); /* -1 with errno set if a signal came */

/* A thread that asks without waiting, again and again, gives way to others after a while: the
 * one that it waits for may be among them. */
void rj_rs_found(int something);

/* rj_rs is the Go half, NULL with errno EBADF if no socket was made yet. */
static inline const struct rj_calls *rj_rs(void)
{
	const struct rj_calls *c = __atomic_load_n(&rj_loaded, __ATOMIC_ACQUIRE);

	if (!c)
		errno = EBADF;
	return c;
}

/* rj_rs_result is a result of the Go half as the system's calls have it. */
static inline ssize_t rj_rs_result(ssize_t r)
{
	if (r >= 0)
		return r;
	errno = -r;
	return -1;
}

#endif
