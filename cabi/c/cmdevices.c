/* SPDX-License-Identifier: Apache-2.0 */

/* The devices of ids. */

#include "cm.h"

#include <fcntl.h>

/* A device that ids use stays open until the process ends, with a protection domain and an XRC domain. */
struct open_device {
	struct open_device *next;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_device *devices;

/* A child cannot use its parent's objects, see load.c. */
static void in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	devices = NULL;
}

__attribute__((constructor)) static void at_start(void) { pthread_atfork(NULL, NULL, in_child); }

static struct open_device *find(const char *name)
{
	struct open_device *d;

	for (d = devices; d; d = d->next)
		if (!strcmp(d->context->device->name, name))
			return d;
	return NULL;
}

static struct open_device *open_device(struct ibv_device *device)
{
	struct open_device *d = find(device->name);

	if (d)
		return d;
	d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->context = ibv_open_device(device);
	if (!d->context) {
		free(d);
		return NULL;
	}
	d->next = devices;
	devices = d;
	return d;
}

struct ibv_context *rj_cm_context(const char *name)
{
	struct ibv_device **list;
	struct open_device *d;
	int i;

	pthread_mutex_lock(&lock);
	d = find(name);
	if (!d) {
		list = ibv_get_device_list(NULL);
		for (i = 0; list && list[i]; i++)
			if (!strcmp(list[i]->name, name))
				d = open_device(list[i]);
		ibv_free_device_list(list);
	}
	pthread_mutex_unlock(&lock);
	if (!d)
		return rj_fail(NULL, ENODEV);
	return d->context;
}

struct ibv_pd *rj_cm_pd(struct ibv_context *context)
{
	struct open_device *d;

	pthread_mutex_lock(&lock);
	d = find(context->device->name);
	if (d && !d->pd)
		d->pd = ibv_alloc_pd(d->context);
	pthread_mutex_unlock(&lock);
	return d ? d->pd : NULL;
}

struct ibv_xrcd *rj_cm_xrcd(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct open_device *d;

	pthread_mutex_lock(&lock);
	d = find(context->device->name);
	if (d && !d->xrcd)
		d->xrcd = ibv_open_xrcd(d->context, &attr);
	pthread_mutex_unlock(&lock);
	return d ? d->xrcd : rj_fail(NULL, ENODEV);
}

EXPORT struct ibv_context **rdma_get_devices(int *num)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context **out;
	struct open_device *d;
	int i, n = 0;

	for (i = 0; list && list[i]; i++)
		;
	out = calloc(i + 1, sizeof *out);
	pthread_mutex_lock(&lock);
	for (i = 0; out && list && list[i]; i++)
		if ((d = open_device(list[i])))
			out[n++] = d->context;
	pthread_mutex_unlock(&lock);
	ibv_free_device_list(list);
	if (num)
		*num = n;
	if (!n) {
		free(out);
		return rj_fail(NULL, ENODEV);
	}
	return out;
}

EXPORT void rdma_free_devices(struct ibv_context **list) { free(list); }
