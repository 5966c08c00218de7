/* SPDX-License-Identifier: Apache-2.0 */

/* The connection manager's objects. */
#ifndef RAMJET_CMOBJECTS_H
#define RAMJET_CMOBJECTS_H

#include "objects.h"
#include <rdma/rdma_cma.h>

/* Events that came after rdma-core 44. */
enum { RJ_CM_EVENT_ADDRINFO_RESOLVED = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1, RJ_CM_EVENT_ADDRINFO_ERROR, RJ_CM_EVENT_USER };

struct rj_cm_channel {
	struct rdma_event_channel channel;
	uint64_t handle;
	pthread_mutex_t taking; /* an event, and for a new id its struct, before the next event can be of that id */
};

/* A multicast group that an id has joined, with the program's context. */
struct rj_cm_group {
	struct rj_cm_group *next;
	uint8_t addr[16];
	void *context;
};

struct rj_cm_id {
	struct rdma_cm_id id;
	uint64_t handle;
	int sync; /* synchronous: created without a channel, so calls wait */
	struct ibv_sa_path_rec path;
	struct rj_cm_group *groups;
	struct ibv_qp_init_attr *requests_qp; /* rdma_create_ep: for the ids of requests */
	struct ibv_pd *requests_pd;
	struct rdma_addrinfo *found; /* by rdma_resolve_addrinfo, until rdma_query_addrinfo takes it */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed, events_reported;
};

struct rj_cm_event {
	struct rdma_cm_event event;
	struct rj_cm_id *owner; /* which counts it */
	uint64_t handle;        /* CONNECT_REQUEST: of the new id */
	uint8_t group[16];      /* MULTICAST_*: which */
	uint8_t data[256];      /* private data */
};

#endif
