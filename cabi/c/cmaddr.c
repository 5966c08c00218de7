/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses by name. */

#include "cm.h"

#include <netdb.h>

#include <rdma/rdma_cma.h>

static int from(const struct addrinfo *a, int passive, struct rdma_addrinfo *r)
{
	const size_t least = sizeof(struct sockaddr_storage);
	struct sockaddr *copy = calloc(1, a->ai_addrlen > least ? a->ai_addrlen : least);

	if (!copy)
		return EAI_MEMORY;
	memcpy(copy, a->ai_addr, a->ai_addrlen);
	r->ai_family = a->ai_family;
	if (passive) {
		r->ai_src_addr = copy;
		r->ai_src_len = a->ai_addrlen;
	} else {
		r->ai_dst_addr = copy;
		r->ai_dst_len = a->ai_addrlen;
		if (a->ai_canonname)
			r->ai_dst_canonname = strdup(a->ai_canonname);
	}
	return 0;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **out)
{
	static const struct rdma_addrinfo none;
	struct addrinfo h = { .ai_socktype = SOCK_STREAM }, *a = NULL;
	struct rdma_addrinfo *r;
	int err = 0;

	if (!hints)
		hints = &none;
	if (!node && !service && !hints->ai_src_addr && !hints->ai_dst_addr) {
		errno = EINVAL;
		return -1;
	}
	if (hints->ai_family != AF_UNSPEC && hints->ai_family != AF_INET && hints->ai_family != AF_INET6)
		return EAI_FAMILY;
	r = calloc(1, sizeof *r);
	if (!r)
		return EAI_MEMORY;
	r->ai_flags = hints->ai_flags;
	r->ai_port_space = hints->ai_port_space;
	r->ai_qp_type = hints->ai_qp_type;
	if (!r->ai_port_space)
		r->ai_port_space = r->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!r->ai_qp_type)
		r->ai_qp_type = r->ai_port_space == RDMA_PS_UDP || r->ai_port_space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
	if (node || service) {
		h.ai_family = hints->ai_family;
		h.ai_flags = (hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) | (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
		if (!h.ai_family && !node && hints->ai_flags & RAI_PASSIVE)
			h.ai_family = AF_INET;
		err = getaddrinfo(node, service, &h, &a);
		if (!err)
			err = from(a, hints->ai_flags & RAI_PASSIVE, r);
		if (a)
			freeaddrinfo(a);
	}
	if (!err && !r->ai_src_addr && hints->ai_src_addr) {
		struct addrinfo s = { .ai_addr = hints->ai_src_addr, .ai_addrlen = hints->ai_src_len,
			.ai_family = hints->ai_src_addr->sa_family };
		err = from(&s, 1, r);
	}
	if (!err && !r->ai_dst_addr && hints->ai_dst_addr && !(hints->ai_flags & RAI_PASSIVE)) {
		struct addrinfo d = { .ai_addr = hints->ai_dst_addr, .ai_addrlen = hints->ai_dst_len,
			.ai_family = hints->ai_dst_addr->sa_family };
		err = from(&d, 0, r);
	}
	if (err) {
		rdma_freeaddrinfo(r);
		return err;
	}
	*out = r;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *r)
{
	while (r) {
		struct rdma_addrinfo *next = r->ai_next;

		free(r->ai_src_addr);
		free(r->ai_dst_addr);
		free(r->ai_src_canonname);
		free(r->ai_dst_canonname);
		free(r->ai_connect);
		free(r);
		r = next;
	}
}
