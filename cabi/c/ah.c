/* SPDX-License-Identifier: Apache-2.0 */

/* Address handles. */

#include "ramjet.h"

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct rj_ah *a = calloc(1, sizeof *a);
	int err;

	if (!a)
		return NULL;
	err = TRY(create_ah(rj_pd_handle(pd), attr, &a->handle));
	if (err)
		return rj_fail(a, err);
	a->ah.context = pd->context;
	a->ah.pd = pd;
	a->ah.handle = (uint32_t)a->handle;
	return &a->ah;
}

/* A RoCEv2 packet over IPv4 leaves its IP header in the last 20 of the 40 bytes before a
 * datagram (IBTA annex A17.4.5.1). */
static void sender(const struct ibv_grh *grh, struct ibv_global_route *route, union ibv_gid *mine)
{
	const uint8_t *b = (const uint8_t *)grh;
	uint32_t word;

	if (b[20] >> 4 == 4 && b[0] >> 4 != 6) {
		static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

		memcpy(route->dgid.raw, prefix, 12);
		memcpy(route->dgid.raw + 12, b + 32, 4);
		memcpy(mine->raw, prefix, 12);
		memcpy(mine->raw + 12, b + 36, 4);
		route->traffic_class = b[21];
		route->hop_limit = b[28];
		return;
	}
	memcpy(&word, b, 4);
	word = __builtin_bswap32(word);
	route->dgid = grh->sgid;
	*mine = grh->dgid;
	route->traffic_class = word >> 20;
	route->flow_label = word & 0xfffff;
	route->hop_limit = grh->hop_limit;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	struct ibv_port_attr p;
	union ibv_gid mine, gid;
	int i;

	memset(attr, 0, sizeof *attr);
	attr->dlid = wc->slid;
	if (!ibv_query_port(context, port, &p) && p.link_layer == IBV_LINK_LAYER_INFINIBAND)
		attr->sl = wc->sl; /* else it says of which kind the packet was */
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	sender(grh, &attr->grh, &mine);
	attr->grh.hop_limit = 255;
	for (i = 0; !ibv_query_gid(context, port, i, &gid); i++)
		if (!memcmp(&gid, &mine, sizeof gid))
			attr->grh.sgid_index = i;
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	return rj_gone(TRY(destroy_ah(HANDLE(rj_ah, ah))), ah);
}
