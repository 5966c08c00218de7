/* SPDX-License-Identifier: Apache-2.0 */

/* Devices, contexts and what can be asked of them. */

#include "ramjet.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_get_device_list

/* A device lives from ibv_get_device_list on, and as long as a list or a context has it. */
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
	r->device.node_type = info->iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
	r->device.transport_type = info->iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
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
	n = rj()->devices(info, room);
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
	struct rj_context *c = calloc(1, sizeof *c);
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
	c->v.context.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* some programs look whether there is one */
	c->v.context.num_comp_vectors = 1;
	pthread_mutex_init(&c->v.context.mutex, NULL);
	c->v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->v.sz = sizeof c->v;
	rj_fill_context(c);
	return &c->v.context;
}

/* Objects that the program has left find the operation tables in the context. */
EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct rj_context *c = rj_context(context);
	int left = 0;

	TRY(close(c->handle, &left));
	close(context->cmd_fd);
	put(context->device);
	if (!left && !__atomic_load_n(&c->domains, __ATOMIC_SEQ_CST))
		free(c);
	return 0;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex ex;
	int err = TRY(query_device(rj_context(context)->handle, &ex));

	if (!err)
		*attr = ex.orig_attr;
	return err;
}

/* Programs of older headers bring a shorter struct: without the fields after flags. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr a;
	int err = TRY(query_port(rj_context(context)->handle, port, &a));

	if (!err)
		memcpy(attr, &a, offsetof(struct ibv_port_attr, port_cap_flags2));
	return err;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry e;
	int err = TRY(query_gid(rj_context(context)->handle, port, index, &e));

	if (!err)
		*gid = e.gid;
	return rj_failed(err);
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	struct ibv_gid_entry e;
	int err;

	if (flags)
		return rj_errno(EOPNOTSUPP);
	err = TRY(query_gid(rj_context(context)->handle, port, index, &e));
	if (err)
		return err;
	memset(entry, 0, size);
	memcpy(entry, &e, size < sizeof e ? size : sizeof e);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room, uint32_t flags,
				    size_t size)
{
	struct ibv_port_attr a;
	ssize_t n = 0;
	int err, i;

	if (flags || size < sizeof *entries)
		return flags ? -EOPNOTSUPP : -EINVAL;
	err = TRY(query_port(rj_context(context)->handle, 1, &a));
	if (err)
		return -err;
	for (i = 0; i < a.gid_tbl_len; i++) {
		struct ibv_gid_entry e;

		if (TRY(query_gid(rj_context(context)->handle, 1, i, &e)))
			continue;
		if ((size_t)n == room)
			return -EINVAL;
		memset((char *)entries + n * size, 0, size);
		memcpy((char *)entries + n++ * size, &e, sizeof e);
	}
	return n;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	return rj_failed(TRY(query_pkey(rj_context(context)->handle, port, index, pkey)));
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	__be16 k;
	int i;

	for (i = 0; !ibv_query_pkey(context, port, i, &k); i++)
		if (k == pkey)
			return i;
	errno = ENOENT;
	return -1;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t one;

	do {
		if (read(context->async_fd, &one, sizeof one) != sizeof one)
			return -1;
	} while (ASK(next_async(rj_context(context)->handle, event)) != 1);
	return 0;
}

static void done(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *count, uint32_t n)
{
	pthread_mutex_lock(mutex);
	*count += n;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *q = event->element.cq;
		done(&q->mutex, &q->cond, &q->async_events_completed, 1);
		break;
	}
	case IBV_EVENT_QP_FATAL: case IBV_EVENT_QP_REQ_ERR: case IBV_EVENT_QP_ACCESS_ERR: case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED: case IBV_EVENT_PATH_MIG: case IBV_EVENT_PATH_MIG_ERR: case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *q = event->element.qp;
		done(&q->mutex, &q->cond, &q->events_completed, 1);
		break;
	}
	case IBV_EVENT_SRQ_ERR: case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *q = event->element.srq;
		done(&q->mutex, &q->cond, &q->events_completed, 1);
		break;
	}
	default:
		break;
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *q, unsigned int n)
{
	done(&q->mutex, &q->cond, &q->comp_events_completed, n);
}

/* An object goes only when the program is done with the events that it was given. */
void rj_wait_events(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t *reported)
{
	pthread_mutex_lock(mutex);
	while (*completed != __atomic_load_n(reported, __ATOMIC_SEQ_CST))
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

/* There is no sysfs of these devices: what programs of this library ask for is answered here. */
EXPORT const char *ibv_get_sysfs_path(void) { return "/sys"; }

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	FILE *f;
	size_t n;

	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path || !(f = fopen(path, "re")))
		return -1;
	n = fread(buf, 1, size, f);
	fclose(f);
	if (n > 0 && buf[n - 1] == '\n')
		n--;
	if (n < size)
		buf[n] = 0;
	return (int)n;
}

/* Nothing is pinned, and a child that wants devices gets a runtime of its own. */
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
EXPORT int ibv_dontfork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
EXPORT int ibv_dofork_range(void *base, size_t size) { (void)base, (void)size; return 0; }

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
				       uint16_t *vid)
{
	int err = TRY(resolve_mac(rj_context(context)->handle, attr, mac));

	if (!err && vid)
		*vid = 0xffff;
	return err;
}

/* Contexts and objects of other processes cannot be had. */
EXPORT struct ibv_context *ibv_import_device(int fd) { (void)fd; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT void ibv_unimport_pd(struct ibv_pd *pd) { (void)pd; }
EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t h) { (void)pd, (void)h; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT void ibv_unimport_mr(struct ibv_mr *mr) { (void)mr; }
EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t h) { (void)c, (void)h; return rj_fail(NULL, EOPNOTSUPP); }
EXPORT void ibv_unimport_dm(struct ibv_dm *dm) { (void)dm; }
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece) { (void)qp, (void)ece; return rj_errno(EOPNOTSUPP); }
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece) { (void)qp; memset(ece, 0, sizeof *ece); return rj_errno(EOPNOTSUPP); }
