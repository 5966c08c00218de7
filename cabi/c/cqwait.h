/* SPDX-License-Identifier: Apache-2.0 */

/* How a thread sleeps that waits for a completion event. */
#ifndef RAMJET_CQWAIT_H
#define RAMJET_CQWAIT_H

#include <poll.h>
#include <stdint.h>
#include <time.h>

struct rj_wait {
	struct pollfd fds[16]; /* the first is Go's, to wake the thread */
	int n;                 /* 0: it is to sleep in read */
	int own;               /* the thread has begun a wait that it has to end */
	int limited;           /* it sleeps no longer than limit */
	struct timespec limit;
};

#endif
