/* SPDX-License-Identifier: Apache-2.0 */

/* Events: taking them from a channel, and waiting for the event that completes a call. */

#include "cm.h"

#include <unistd.h>

static int request(struct rdma_event_channel *channel, struct rj_cm_event *e)
{
	struct rj_cm_id *l = e->owner, *i = rj_cm_new_id(channel, l->id.context, l->id.ps);

	if (!i) {
		TRY(cm_destroy_id(e->handle));
		return ENOMEM;
	}
	i->handle = e->handle;
	i->id.qp_type = l->id.qp_type;
	e->event.id = &i->id;
	TRY(cm_adopt(i));
	return 0;
}

/* take takes the next event. It returns 0 if there is none. */
static int take(struct rdma_event_channel *channel, struct rj_cm_event *e, int *err)
{
	struct rj_cm_channel *c = (struct rj_cm_channel *)channel;
	int found;

	pthread_mutex_lock(&c->taking);
	found = ASK(cm_next(c->handle, e)) == 1;
	if (found && e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		*err = request(channel, e);
	pthread_mutex_unlock(&c->taking);
	return found;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct rj_cm_event *e = calloc(1, sizeof *e);
	struct rj_cm_group *g;
	uint64_t one;
	int err = 0;

	if (!e)
		return -1;
	do {
		if (read(channel->fd, &one, sizeof one) != sizeof one) {
			free(e);
			return -1;
		}
	} while (!take(channel, e, &err));
	pthread_mutex_lock(&e->owner->mutex);
	for (g = e->owner->groups; g; g = g->next)
		if (!memcmp(g->addr, e->group, 16))
			e->event.param.ud.private_data = g->context;
	pthread_mutex_unlock(&e->owner->mutex);
	if (!err)
		err = rj_cm_describe(rj_cm_id(e->event.id));
	if (err) {
		struct rdma_cm_id *new = e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? e->event.id : NULL;

		rdma_ack_cm_event(&e->event);
		if (new)
			rdma_destroy_id(new);
		return rj_failed(err);
	}
	*out = &e->event;
	return 0;
}

/* rj_cm_complete waits for the event that completes a call, if the id is synchronous. */
int rj_cm_complete(struct rj_cm_id *i)
{
	int status;

	if (!i->sync)
		return 0;
	if (i->id.event) {
		rdma_ack_cm_event(i->id.event);
		i->id.event = NULL;
	}
	if (rdma_get_cm_event(i->id.channel, &i->id.event))
		return -1;
	status = i->id.event->status;
	if (!status)
		return 0;
	if (i->id.event->event == RDMA_CM_EVENT_REJECTED)
		return rj_failed(ECONNREFUSED);
	return rj_failed(status < 0 ? -status : status);
}

int rj_cm_called(struct rj_cm_id *i, int err) { return err ? rj_failed(err) : rj_cm_complete(i); }

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define EVENT(name) case name: return #name;
	switch ((int)event) {
	EVENT(RDMA_CM_EVENT_ADDR_RESOLVED) EVENT(RDMA_CM_EVENT_ADDR_ERROR)
	EVENT(RDMA_CM_EVENT_ROUTE_RESOLVED) EVENT(RDMA_CM_EVENT_ROUTE_ERROR)
	EVENT(RDMA_CM_EVENT_CONNECT_REQUEST) EVENT(RDMA_CM_EVENT_CONNECT_RESPONSE)
	EVENT(RDMA_CM_EVENT_CONNECT_ERROR) EVENT(RDMA_CM_EVENT_UNREACHABLE)
	EVENT(RDMA_CM_EVENT_REJECTED) EVENT(RDMA_CM_EVENT_ESTABLISHED)
	EVENT(RDMA_CM_EVENT_DISCONNECTED) EVENT(RDMA_CM_EVENT_DEVICE_REMOVAL)
	EVENT(RDMA_CM_EVENT_MULTICAST_JOIN) EVENT(RDMA_CM_EVENT_MULTICAST_ERROR)
	EVENT(RDMA_CM_EVENT_ADDR_CHANGE) EVENT(RDMA_CM_EVENT_TIMEWAIT_EXIT)
	case RJ_CM_EVENT_ADDRINFO_RESOLVED: return "RDMA_CM_EVENT_ADDRINFO_RESOLVED";
	case RJ_CM_EVENT_ADDRINFO_ERROR: return "RDMA_CM_EVENT_ADDRINFO_ERROR";
	case RJ_CM_EVENT_USER: return "RDMA_CM_EVENT_USER";
	}
	return "UNKNOWN EVENT";
}
