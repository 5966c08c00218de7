/* SPDX-License-Identifier: Apache-2.0 */

/* The declarations that the files of librdmacm.so.1 share. */
#ifndef RAMJET_CM_H
#define RAMJET_CM_H

#define RJ_CM
#include "ramjet.h"

static inline struct rj_cm_id *rj_cm_id(struct rdma_cm_id *id) { return (struct rj_cm_id *)id; }

/* cmdevices.c: devices that are open for as long as the process lives */
struct ibv_context *rj_cm_context(const char *device);
struct ibv_pd *rj_cm_pd(struct ibv_context *context); /* for ids without one */
struct ibv_xrcd *rj_cm_xrcd(struct ibv_context *context); /* likewise */

/* cmchannel.c */
void rj_cm_wait(struct rj_cm_id *id); /* until all events are acknowledged */

/* cmid.c */
struct rj_cm_id *rj_cm_new_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
int rj_cm_describe(struct rj_cm_id *id);

/* cmevents.c: calls on synchronous ids wait for the event that completes them */
int rj_cm_complete(struct rj_cm_id *id);
int rj_cm_called(struct rj_cm_id *id, int err); /* unless the call failed */

#endif
