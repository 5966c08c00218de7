/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm.so.1: ids, their events, and connections. */

#include "ramjet.h"

#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <rdma/rdma_verbs.h>

#include "cm.h"

static int fail(int err)
{
	errno = err;
	return -1;
}

static struct rj_cm_id *of(struct rdma_cm_id *id) { return (struct rj_cm_id *)id; }

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rj_cm_channel *c = calloc(1, sizeof *c);
	int err;

	if (!c)
		return NULL;
	pthread_mutex_init(&c->taking, NULL);
	err = TRY(cm_create_channel(&c->handle, &c->channel.fd));
	return err ? rj_fail(c, err) : &c->channel;
}

static struct rdma_event_channel *latest; /* that was destroyed, see below */

/* The parent's objects mean nothing to a child, see load.c. */
static void in_child(void)
{
	latest = NULL;
	rj_cm_new_process();
}

__attribute__((constructor)) static void at_start(void) { pthread_atfork(NULL, NULL, in_child); }

/* A thread that has acknowledged the last event may be on its way back to rdma_get_cm_event while
 * another destroys the channel: rping's is. It is to find a channel at which nothing happens any
 * more, as if it had been there already, and no freed memory. So a channel goes with the next. */
EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct rdma_event_channel *before = __atomic_exchange_n(&latest, channel, __ATOMIC_ACQ_REL);

	if (!before)
		return;
	TRY(cm_destroy_channel(HIDDEN_HANDLE(rj_cm_channel, before)));
	free(before);
}

static struct rj_cm_id *new_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
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
	i = new_id(channel, context, ps);
	err = i ? TRY(cm_create_id(HIDDEN_HANDLE(rj_cm_channel, channel), i, ps, &i->handle)) : ENOMEM;
	if (err) {
		free(i);
		if (sync)
			rdma_destroy_event_channel(channel);
		return fail(err);
	}
	i->sync = sync;
	*id = &i->id;
	return 0;
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct rj_cm_id *i = of(id);
	struct rj_cm_group *g;
	int err;

	if (i->id.event)
		rdma_ack_cm_event(i->id.event);
	err = TRY(cm_destroy_id(i->handle));
	if (err)
		return fail(err);
	rj_cm_wait(i);
	if (i->sync)
		rdma_destroy_event_channel(id->channel);
	while ((g = i->groups)) {
		i->groups = g->next;
		free(g);
	}
	rdma_freeaddrinfo(i->found);
	free(i->requests_qp);
	free(i);
	return 0;
}

/* describe brings an id's addresses and device up to date. */
static int describe(struct rj_cm_id *i)
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

/* complete waits for the event of a call on an id without a channel of the program's. */
static int complete(struct rj_cm_id *i)
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
		return fail(ECONNREFUSED);
	return fail(status < 0 ? -status : status);
}

int rj_cm_called(struct rj_cm_id *i, int err) { return err ? fail(err) : complete(i); }

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int err = TRY(cm_bind(of(id)->handle, addr));

	return rj_failed(err ? err : describe(of(id)));
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	int err = TRY(cm_resolve_addr(of(id)->handle, src, dst, timeout_ms));

	return rj_cm_called(of(id), err);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return rj_cm_called(of(id), TRY(cm_resolve_route(of(id)->handle, timeout_ms)));
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	int err = TRY(cm_listen(of(id)->handle, backlog));

	return rj_failed(err ? err : describe(of(id)));
}

static int datagrams(struct rdma_cm_id *id) { return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB; }

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return rj_cm_called(of(id), TRY(cm_connect(of(id)->handle, param)));
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int err = TRY(cm_accept(of(id)->handle, param));

	if (err || datagrams(id))
		return rj_failed(err);
	return complete(of(id));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return rj_failed(TRY(cm_reject(of(id)->handle, (void *)data, length)));
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	(void)id, (void)data, (void)length;
	return fail(EOPNOTSUPP);
}

EXPORT int rdma_establish(struct rdma_cm_id *id) { return rj_failed(TRY(cm_establish(of(id)->handle))); }

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	return rj_failed(TRY(cm_notify(of(id)->handle, event)));
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	return rj_cm_called(of(id), TRY(cm_disconnect(of(id)->handle)));
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece) { (void)id, (void)ece; return fail(EOPNOTSUPP); }
EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece) { (void)id, (void)ece; return fail(EOPNOTSUPP); }

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	return rj_failed(TRY(cm_set_option(of(id)->handle, level, name, value, length)));
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	return rj_failed(TRY(cm_init_qp_attr(of(id)->handle, attr, mask)));
}

/* Multicast groups. */

static int group_addr(const struct sockaddr *addr, uint8_t *out)
{
	memset(out, 0, 16);
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

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct rj_cm_id *i = of(id);
	struct rj_cm_group *g = calloc(1, sizeof *g);
	uint8_t at[16];
	int err;

	if (!g)
		return -1;
	err = group_addr(addr, at);
	if (err) {
		free(g);
		return fail(err);
	}
	memcpy(g->addr, at, sizeof at);
	g->context = context;
	pthread_mutex_lock(&i->mutex);
	g->next = i->groups;
	i->groups = g;
	pthread_mutex_unlock(&i->mutex);
	err = TRY(cm_join(i->handle, addr));
	if (err)
		forget(i, at);
	return rj_cm_called(i, err);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return fail(EINVAL);
	if (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS && attr->join_flags != RDMA_MC_JOIN_FLAG_FULLMEMBER)
		return fail(EOPNOTSUPP);
	return rdma_join_multicast(id, attr->addr, context);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	uint8_t at[16];
	int err = group_addr(addr, at);

	if (!err)
		err = TRY(cm_leave(of(id)->handle, addr));
	if (!err)
		forget(of(id), at);
	return rj_failed(err);
}

/* Events. */

static int request(struct rdma_event_channel *channel, struct rj_cm_event *e)
{
	struct rj_cm_id *l = e->owner, *i = new_id(channel, l->id.context, l->id.ps);

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

/* take takes the next event if there still is one: 1. */
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
		err = describe(of(e->event.id));
	if (err) {
		struct rdma_cm_id *new = e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? e->event.id : NULL;

		rdma_ack_cm_event(&e->event);
		if (new)
			rdma_destroy_id(new);
		return fail(err);
	}
	*out = &e->event;
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct rj_cm_id *owner;

	if (!event)
		return fail(EINVAL);
	owner = ((struct rj_cm_event *)event)->owner;
	pthread_mutex_lock(&owner->mutex);
	owner->events_completed++;
	pthread_cond_broadcast(&owner->cond);
	pthread_mutex_unlock(&owner->mutex);
	free(event);
	return 0;
}

void rj_cm_wait(struct rj_cm_id *i)
{
	pthread_mutex_lock(&i->mutex);
	while (i->events_completed != __atomic_load_n(&i->events_reported, __ATOMIC_SEQ_CST))
		pthread_cond_wait(&i->cond, &i->mutex);
	pthread_mutex_unlock(&i->mutex);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct rj_cm_id *i = of(id);
	int sync = !channel, err;

	if (sync && i->sync)
		return fail(EINVAL);
	if (sync && !(channel = rdma_create_event_channel()))
		return -1;
	err = TRY(cm_migrate(i->handle, HIDDEN_HANDLE(rj_cm_channel, channel)));
	if (err) {
		if (sync)
			rdma_destroy_event_channel(channel);
		return fail(err);
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

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct rj_cm_id *l = of(listen);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr attr;
	int err;

	if (!l->sync)
		return fail(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->status || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		err = event->status < 0 ? -event->status : event->status ? event->status : EINVAL;
		rdma_ack_cm_event(event);
		return fail(err);
	}
	id = event->id;
	if (l->requests_qp) {
		attr = *l->requests_qp;
		err = rdma_create_qp(id, l->requests_pd, &attr);
	} else {
		err = 0;
	}
	if (!err)
		err = rdma_migrate_id(id, NULL);
	if (err) {
		err = errno;
		rdma_ack_cm_event(event);
		rdma_reject(id, NULL, 0);
		rdma_destroy_ep(id);
		return fail(err);
	}
	id->event = event; /* until the next one: programs look at its private data */
	*out = id;
	return 0;
}

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
