/* SPDX-License-Identifier: Apache-2.0 */

/* An epoll's record of an rsocket in it. */
#ifndef RAMJET_RSWATCH_H
#define RAMJET_RSWATCH_H

#include <stdint.h>

struct rj_watch {
	int fd;
	uint32_t events;   /* of epoll_ctl; 0: none before it is called again (EPOLLONESHOT) */
	uint32_t ready;    /* to be reported */
	uint32_t state;    /* edge-triggered: as it was reported */
	uint32_t received; /* the socket's counts when it was reported */
	uint32_t refused;
	uint64_t data;
};

#endif
