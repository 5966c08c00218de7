/* SPDX-License-Identifier: Apache-2.0 */

/* Ids, and their structs for programs. */

#include "cm.h"

#include <netinet/in.h>

struct rj_cm_id *rj_cm_new_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct rj_cm_id *i = calloc(1, sizeof *i);

	if (!i)
		return NULL;
	pthread_mutex_init(&i->mutex, NULL);
	pthread_cond_init(&i->cond, NULL);
	i->id.channel = channel;
	i->id.context = context;
	i->id.ps = ps;
	i->id.qp_type = ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	return i;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	int sync = !channel, err;
	struct rj_cm_id *i;

	if (sync && !(channel = rdma_create_event_channel()))
		return -1;
	i = rj_cm_new_id(channel, context, ps);
	err = i ? TRY(cm_create_id(HIDDEN_HANDLE(rj_cm_channel, channel), i, ps, &i->handle)) : ENOMEM;
	if (err) {
		free(i);
		if (sync)
			rdma_destroy_event_channel(channel);
		return rj_failed(err);
	}
	i->sync = sync;
	*id = &i->id;
	return 0;
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct rj_cm_id *i = rj_cm_id(id);
	struct rj_cm_group *g;
	int err;

	if (i->id.event)
		rdma_ack_cm_event(i->id.event);
	err = TRY(cm_destroy_id(i->handle));
	if (err)
		return rj_failed(err);
	rj_cm_wait(i);
	if (i->sync)
		rdma_destroy_event_channel(id->channel);
	while ((g = i->groups)) {
		i->groups = g->next;
		free(g);
	}
	rdma_freeaddrinfo(i->found);
	free(i->requests_qp);
	rj_discard(i);
	return 0;
}

/* rj_cm_describe brings an id's addresses and device up to date. */
int rj_cm_describe(struct rj_cm_id *i)
{
	char device[IBV_SYSFS_NAME_MAX];
	int err = TRY(cm_describe(i->handle, i, device));

	if (err)
		return err;
	i->id.port_num = device[0] ? 1 : 0;
	if (i->path.numb_path) {
		i->id.route.path_rec = &i->path;
		i->id.route.num_paths = 1;
	}
	if (device[0] && !i->id.verbs) {
		i->id.verbs = rj_cm_context(device);
		if (!i->id.verbs)
			return errno;
	}
	if (i->id.verbs && !i->id.pd)
		i->id.pd = rj_cm_pd(i->id.verbs);
	return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct rj_cm_id *i = rj_cm_id(id);
	int sync = !channel, err;

	if (sync && i->sync)
		return rj_failed(EINVAL);
	if (sync && !(channel = rdma_create_event_channel()))
		return -1;
	err = TRY(cm_migrate(i->handle, HIDDEN_HANDLE(rj_cm_channel, channel)));
	if (err) {
		if (sync)
			rdma_destroy_event_channel(channel);
		return rj_failed(err);
	}
	if (i->sync) {
		if (id->event)
			rdma_ack_cm_event(id->event);
		id->event = NULL;
		rdma_destroy_event_channel(id->channel);
	} else {
		rj_cm_wait(i);
	}
	i->sync = sync;
	id->channel = channel;
	return 0;
}

static __be16 port_of(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET: return ((const struct sockaddr_in *)addr)->sin_port;
	case AF_INET6: return ((const struct sockaddr_in6 *)addr)->sin6_port;
	}
	return 0;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.src_addr); }
EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.dst_addr); }
