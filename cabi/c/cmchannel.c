/* SPDX-License-Identifier: Apache-2.0 */

/* Event channels, and the acknowledgement of events. */

#include "cm.h"

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

static struct rdma_event_channel *latest; /* the channel destroyed last, see below */

/* A child cannot use its parent's objects, see load.c. */
static void in_child(void) { latest = NULL; }

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
	rj_discard(before);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct rj_cm_id *owner;

	if (!event)
		return rj_failed(EINVAL);
	owner = ((struct rj_cm_event *)event)->owner;
	pthread_mutex_lock(&owner->mutex);
	owner->events_completed++;
	pthread_cond_broadcast(&owner->cond);
	pthread_mutex_unlock(&owner->mutex);
	rj_discard(event);
	return 0;
}

void rj_cm_wait(struct rj_cm_id *i)
{
	rj_wait_events(i, &i->mutex, &i->cond, &i->events_completed, &i->events_reported);
}
