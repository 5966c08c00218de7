/* SPDX-License-Identifier: Apache-2.0 */

/* Calls of librdmacm that came after rdma-core 44, whose headers need not be installed. */

#include "cm.h"

#include <netdb.h>

/* rdma_write_cm_event puts a user event into the id's channel. */
EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	if ((int)event != RJ_CM_EVENT_USER)
		return rj_failed(EINVAL);
	return rj_failed(TRY(cm_write_event(rj_cm_id(id)->handle, event, status, arg)));
}

static int errno_of(int eai)
{
	switch (eai) {
	case EAI_MEMORY: return ENOMEM;
	case EAI_AGAIN: return EAGAIN;
	case EAI_FAMILY: return EAFNOSUPPORT;
	case EAI_SYSTEM: case -1: return errno;
	}
	return EADDRNOTAVAIL;
}

/* rdma_resolve_addrinfo asks as rdma_getaddrinfo does, and an event tells of the answer. It waits
 * for the names' servers, as rdma-core's does. */
EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	enum { RESOLVE_SA = 0x10 };
	struct rj_cm_id *i = rj_cm_id(id);
	struct rdma_addrinfo *found = NULL;
	int err;

	if (hints && hints->ai_flags & RESOLVE_SA) /* by the subnet administrator */
		return rj_failed(EOPNOTSUPP);
	err = rdma_getaddrinfo(node, service, hints, &found);
	pthread_mutex_lock(&i->mutex);
	if (i->found)
		rdma_freeaddrinfo(i->found);
	i->found = found;
	pthread_mutex_unlock(&i->mutex);
	if (err)
		err = TRY(cm_write_event(i->handle, RJ_CM_EVENT_ADDRINFO_ERROR, -errno_of(err), 0));
	else
		err = TRY(cm_write_event(i->handle, RJ_CM_EVENT_ADDRINFO_RESOLVED, 0, 0));
	return rj_cm_called(i, err);
}

EXPORT int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **out)
{
	struct rj_cm_id *i = rj_cm_id(id);
	struct rdma_addrinfo *found;

	pthread_mutex_lock(&i->mutex);
	found = i->found;
	i->found = NULL;
	pthread_mutex_unlock(&i->mutex);
	if (!found)
		return rj_failed(ENOENT);
	*out = found;
	return 0;
}
