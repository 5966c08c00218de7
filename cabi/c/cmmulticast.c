/* SPDX-License-Identifier: Apache-2.0 */

/* Multicast groups. */

#include "cm.h"

#include <netinet/in.h>

static int group_addr(const struct sockaddr *addr, uint8_t *out)
{
	memset(out, 0, 16);
	if (!addr)
		return EINVAL;
	switch (addr->sa_family) {
	case AF_INET:
		out[10] = out[11] = 0xff;
		memcpy(out + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
		return 0;
	case AF_INET6:
		memcpy(out, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
		return 0;
	}
	return EINVAL;
}

static void forget(struct rj_cm_id *i, const uint8_t *addr)
{
	struct rj_cm_group **p, *g;

	pthread_mutex_lock(&i->mutex);
	for (p = &i->groups; (g = *p); p = &g->next)
		if (!memcmp(g->addr, addr, 16)) {
			*p = g->next;
			free(g);
			break;
		}
	pthread_mutex_unlock(&i->mutex);
}

static int join(struct rdma_cm_id *id, const struct sockaddr *addr, int send_only, void *context)
{
	struct rj_cm_id *i = rj_cm_id(id);
	struct rj_cm_group *g = calloc(1, sizeof *g);
	uint8_t at[16];
	int err;

	if (!g)
		return -1;
	err = group_addr(addr, at);
	if (err) {
		free(g);
		return rj_failed(err);
	}
	memcpy(g->addr, at, sizeof at);
	g->context = context;
	pthread_mutex_lock(&i->mutex);
	g->next = i->groups;
	i->groups = g;
	pthread_mutex_unlock(&i->mutex);
	err = TRY(cm_join(i->handle, (struct sockaddr *)addr, send_only));
	if (err)
		forget(i, at);
	return rj_cm_called(i, err);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return join(id, addr, 0, context);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	uint32_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;

	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return rj_failed(EINVAL);
	if (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS)
		flags = attr->join_flags;
	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return rj_failed(EINVAL);
	return join(id, attr->addr, flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	uint8_t at[16];
	int err = group_addr(addr, at);

	if (!err)
		err = TRY(cm_leave(rj_cm_id(id)->handle, addr));
	if (!err)
		forget(rj_cm_id(id), at);
	return rj_failed(err);
}
