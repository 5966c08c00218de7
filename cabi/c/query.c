/* SPDX-License-Identifier: Apache-2.0 */

/* Attributes of devices and their ports. */

#include "ramjet.h"

#include <time.h>

#undef ibv_query_port

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex ex;
	int err = TRY(query_device(rj_context(context)->handle, &ex));

	if (!err)
		*attr = ex.orig_attr;
	return err;
}

/* Programs built with older headers pass a shorter struct, without the fields after flags. */
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

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
				       uint16_t *vid)
{
	int err = TRY(resolve_mac(rj_context(context)->handle, attr, mac));

	if (!err && vid)
		*vid = 0xffff;
	return err;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a;
	int err;

	if (input && input->comp_mask)
		return rj_errno(EINVAL);
	err = TRY(query_device(rj_context(context)->handle, &a));
	if (err)
		return err;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr a;
	int err = TRY(query_port(rj_context(context)->handle, port, &a));

	if (err)
		return err;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;

	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		uint64_t now = rj() ? GO(rj()->clock(rj_context(context)->handle), 0) : 0;

		values->raw_clock = (struct timespec){ .tv_sec = now / 1000000000, .tv_nsec = now % 1000000000 };
		values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	}
	return 0;
}

void rj_query_ops(struct rj_context *c)
{
	c->v.query_port = query_port;
	c->v.query_device_ex = query_device_ex;
	c->v.query_rt_values = query_rt_values;
}
