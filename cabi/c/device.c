/* SPDX-License-Identifier: Apache-2.0 */

/* The list of devices; opening and closing them. */

#include "ramjet.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#undef ibv_get_device_list

/* A device lives as long as a list or a context refers to it. */
struct rj_device {
	struct ibv_device device;
	uint64_t guid;
	int index;
	int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put(struct ibv_device *d)
{
	struct rj_device *r = (struct rj_device *)d;
	int last;

	pthread_mutex_lock(&lock);
	last = --r->users == 0;
	pthread_mutex_unlock(&lock);
	if (last)
		free(r);
}

static struct ibv_device *new_device(const struct rj_device_info *info, int index)
{
	struct rj_device *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->device.node_type = info->node;
	r->device.transport_type = info->transport;
	memcpy(r->device.name, info->name, sizeof r->device.name);
	snprintf(r->device.dev_name, sizeof r->device.dev_name, "uverbs%d", index);
	snprintf(r->device.dev_path, sizeof r->device.dev_path, "/sys/class/infiniband_verbs/uverbs%d", index);
	snprintf(r->device.ibdev_path, sizeof r->device.ibdev_path, "/sys/class/infiniband/%s", info->name);
	r->guid = info->guid;
	r->index = index;
	r->users = 1;
	return &r->device;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	enum { room = 1024 };
	struct rj_device_info *info = calloc(room, sizeof *info);
	struct ibv_device **list = NULL;
	int i, n = 0;

	if (num)
		*num = 0;
	if (!info || !rj())
		goto out;
	n = GO(rj()->devices(info, room), 0);
	if (n > room)
		n = room;
	list = calloc(n + 1, sizeof *list);
	if (!list)
		goto out;
	for (i = 0; i < n; i++)
		list[i] = new_device(&info[i], i);
	if (num)
		*num = n;
	errno = 0;
out:
	free(info);
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	int i;

	if (!list)
		return;
	for (i = 0; list[i]; i++)
		put(list[i]);
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }

EXPORT int ibv_get_device_index(struct ibv_device *device) { return ((struct rj_device *)device)->index; }

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device) { return ((struct rj_device *)device)->guid; }

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct rj_context *c = device ? calloc(1, sizeof *c) : rj_fail(NULL, EINVAL);
	int err;

	if (!c)
		return NULL;
	err = TRY(open(device->name, &c->handle, &c->v.context.async_fd));
	if (err)
		return rj_fail(c, err);
	pthread_mutex_lock(&lock);
	((struct rj_device *)device)->users++;
	pthread_mutex_unlock(&lock);
	c->v.context.device = device;
	c->v.context.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* some programs check it */
	c->v.context.num_comp_vectors = 1;
	pthread_mutex_init(&c->v.context.mutex, NULL);
	c->v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->v.sz = sizeof c->v;
	rj_data_ops(c);
	rj_query_ops(c);
	rj_memory_ops(c);
	rj_cq_ops(c);
	rj_srq_ops(c);
	rj_qp_ops(c);
	rj_log_ops(c);
	return &c->v.context;
}

/* The context is kept if objects are left: they need its operation tables. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct rj_context *c = rj_context(context);
	int left = 0;

	TRY(close(c->handle, &left));
	close(context->cmd_fd);
	put(context->device);
	if (!left && !__atomic_load_n(&c->domains, __ATOMIC_SEQ_CST))
		rj_discard(c);
	return 0;
}
