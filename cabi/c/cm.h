/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of librdmacm.so.1 share. */
#ifndef RAMJET_CM_H
#define RAMJET_CM_H

struct ibv_context *rj_cm_context(const char *device); /* open for as long as the process lives */
struct ibv_pd *rj_cm_pd(struct ibv_context *context);  /* of ids that bring none */
struct ibv_xrcd *rj_cm_xrcd(struct ibv_context *context); /* likewise */
void rj_cm_new_process(void);                          /* forgets the parent's devices */
void rj_cm_wait(struct rj_cm_id *id);                  /* until all events are acknowledged */

int rj_cm_called(struct rj_cm_id *id, int err);        /* waits for the event of a call that has begun, if the id is synchronous */

#endif
