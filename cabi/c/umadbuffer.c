/* SPDX-License-Identifier: Apache-2.0 */

/* Programs' buffers: a head of fixed size, and a datagram behind it. */

#include "umad.h"

#include <arpa/inet.h>

static int debug;

EXPORT int umad_debug(int level)
{
	if (level >= 0)
		debug = level;
	return debug;
}

EXPORT size_t umad_size(void) { return sizeof(struct rj_umad); }
EXPORT void *umad_get_mad(void *umad) { return ((struct rj_umad *)umad)->data; }
EXPORT struct rj_umad_addr *umad_get_mad_addr(void *umad) { return &((struct rj_umad *)umad)->addr; }
EXPORT int umad_status(void *umad) { return ((struct rj_umad *)umad)->status; }
EXPORT int umad_get_pkey(void *umad) { return ((struct rj_umad *)umad)->addr.pkey_index; }

EXPORT int umad_set_pkey(void *umad, int index)
{
	((struct rj_umad *)umad)->addr.pkey_index = index;
	return 0;
}

/* The address may be NULL: then there is no GRH. Its fields are in network byte order. */
EXPORT int umad_set_grh_net(void *umad, void *from)
{
	struct rj_umad_addr *to = umad_get_mad_addr(umad);
	const struct rj_umad_addr *a = from;

	to->has_grh = a != NULL;
	if (a) {
		memcpy(to->gid, a->gid, sizeof to->gid);
		to->gid_index = a->gid_index;
		to->hop_limit = a->hop_limit;
		to->traffic_class = a->traffic_class;
		to->flow_label = a->flow_label;
	}
	return 0;
}

/* As before, but the flow label is in the host's byte order. */
EXPORT int umad_set_grh(void *umad, void *from)
{
	umad_set_grh_net(umad, from);
	if (from)
		umad_get_mad_addr(umad)->flow_label = htonl(((struct rj_umad_addr *)from)->flow_label);
	return 0;
}

EXPORT int umad_set_addr_net(void *umad, uint16_t dlid, uint32_t dqp, int sl, uint32_t qkey)
{
	struct rj_umad_addr *to = umad_get_mad_addr(umad);

	to->qpn = dqp;
	to->qkey = qkey;
	to->lid = dlid;
	to->sl = sl;
	return 0;
}

EXPORT int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, htons(dlid), htonl(dqp), sl, htonl(qkey));
}

EXPORT void umad_addr_dump(struct rj_umad_addr *a)
{
	int i;

	fprintf(stderr, "umad address: LID %#x, QP %#x, Q_Key %#x, SL %d, path bits %#x, P_Key index %d", ntohs(a->lid), ntohl(a->qpn),
		ntohl(a->qkey), a->sl, a->path_bits, a->pkey_index);
	if (a->has_grh) {
		fprintf(stderr, ", GID index %d, hop limit %d, traffic class %d, flow label %#x, GID ", a->gid_index, a->hop_limit,
			a->traffic_class, ntohl(a->flow_label));
		for (i = 0; i < 16; i++)
			fprintf(stderr, "%02x", a->gid[i]);
	}
	fputc('\n', stderr);
}

EXPORT void umad_dump(void *umad)
{
	struct rj_umad *m = umad;

	fprintf(stderr, "umad: agent %u, status %u, timeout %u ms\n", m->agent, m->status, m->timeout_ms);
	umad_addr_dump(&m->addr);
}
