/* SPDX-License-Identifier: Apache-2.0 */

/* The objects that programs get: the structs of rdma-core's headers, and behind them what
 * Ramjet needs: the handle of its Go part, and the counts that destroying waits for. */
#ifndef RAMJET_OBJECTS_H
#define RAMJET_OBJECTS_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rj_device_info {
	char name[IBV_SYSFS_NAME_MAX]; /* for C programs: roce0 */
	uint64_t guid;                 /* network byte order */
	enum ibv_node_type node;
	enum ibv_transport_type transport;
};

struct rj_context {
	struct verbs_context v;
	uint64_t handle;
	int domains; /* thread domains and parent domains */
};

struct rj_pd {
	struct ibv_pd pd;
	uint64_t handle;
	struct ibv_context *context; /* as in pd, where programs can change it */
	struct ibv_pd *parent; /* of a parent domain: the domain that it stands for */
	struct ibv_td *td;     /* of a parent domain: perhaps NULL */
	int children;          /* parent domains */
};

/* A thread domain promises that one thread uses its objects, which makes no difference here. */
struct rj_td {
	struct ibv_td td;
	int users; /* parent domains */
};

struct rj_mr {
	struct ibv_mr mr;
	uint64_t handle;
};

struct rj_mw {
	struct ibv_mw mw;
	uint64_t handle;
};

struct rj_ah {
	struct ibv_ah ah;
	uint64_t handle;
};

struct rj_channel {
	struct ibv_comp_channel channel;
	uint64_t handle;
};

struct rj_xrcd {
	struct ibv_xrcd xrcd;
	uint64_t handle;
};

struct rj_cq {
	struct ibv_cq_ex cq; /* begins as struct ibv_cq */
	uint64_t handle;
	uint32_t comp_events_reported;
	uint32_t async_events_reported;
	pthread_mutex_t polling; /* from ibv_start_poll to ibv_end_poll */
	struct ibv_wc wc;        /* of the poll under way */
	uint64_t timestamp;
	int64_t wall_distance;   /* from timestamps to the wall clock */
	uint64_t wall_time;      /* of the last completion that was asked for it */
	int wall_known;          /* wall_time is that of the completion that is being read */
};

struct rj_srq {
	struct ibv_srq srq;
	uint64_t handle;
	uint32_t num; /* XRC */
	uint32_t async_events_reported;
};

/* The work requests that ibv_wr_* is building. */
struct rj_builder;

struct rj_qp {
	struct ibv_qp_ex qp; /* begins as struct ibv_qp */
	void *newer[4];      /* fields of struct ibv_qp_ex in newer headers, see builder.c */
	uint64_t handle;
	uint32_t async_events_reported;
	struct rj_builder *builder; /* NULL: created without ibv_wr_* */
};

#endif
