/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm.so.1: devices, queue pairs of ids, and endpoints. */

#include "ramjet.h"

#include <fcntl.h>
#include <netdb.h>

#include <rdma/rdma_verbs.h>

#include "cm.h"

/* A device that ids use is open, with a protection domain and an XRC domain, until the process ends. */
struct open_device {
	struct open_device *next;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_device *devices;

void rj_cm_new_process(void)
{
	pthread_mutex_init(&lock, NULL);
	devices = NULL;
}

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

/* create_cqs makes the completion queues of an id whose program brings none. */
static int create_cqs(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
	if (send) {
		id->send_cq_channel = ibv_create_comp_channel(id->verbs);
		if (!id->send_cq_channel)
			return -1;
		id->send_cq = ibv_create_cq(id->verbs, send, id, id->send_cq_channel, 0);
		if (!id->send_cq)
			return -1;
	}
	if (recv) {
		id->recv_cq_channel = ibv_create_comp_channel(id->verbs);
		if (!id->recv_cq_channel)
			return -1;
		id->recv_cq = ibv_create_cq(id->verbs, recv, id, id->recv_cq_channel, 0);
		if (!id->recv_cq)
			return -1;
	}
	return 0;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->qp || id->srq)
		return;
	if (id->recv_cq) {
		ibv_destroy_cq(id->recv_cq);
		if (id->send_cq == id->recv_cq)
			id->send_cq = NULL;
		id->recv_cq = NULL;
	}
	if (id->send_cq) {
		ibv_destroy_cq(id->send_cq);
		id->send_cq = NULL;
	}
	if (id->recv_cq_channel) {
		ibv_destroy_comp_channel(id->recv_cq_channel);
		if (id->send_cq_channel == id->recv_cq_channel)
			id->send_cq_channel = NULL;
		id->recv_cq_channel = NULL;
	}
	if (id->send_cq_channel) {
		ibv_destroy_comp_channel(id->send_cq_channel);
		id->send_cq_channel = NULL;
	}
}

/* A queue that the program brought is its own: it is not destroyed with the id. */
static int own_cqs(struct rdma_cm_id *id) { return id->send_cq_channel || id->recv_cq_channel; }

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int err;

	if (id->qp || !id->verbs) {
		errno = EINVAL;
		return -1;
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (attr->pd->context != id->verbs) {
		errno = EINVAL;
		return -1;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV && (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		attr->xrcd = rj_cm_xrcd(id->verbs);
		if (!attr->xrcd)
			return -1;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	if (create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
		       attr->recv_cq || id->recv_cq || attr->srq ? 0 : attr->cap.max_recv_wr)) /* its XRC queue may have made one */
		goto fail;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	if (!attr->send_cq) /* a queue pair that sends nothing */
		attr->send_cq = attr->recv_cq;
	if (!attr->recv_cq)
		attr->recv_cq = attr->send_cq;
	qp = rj_create_cm_qp(id->verbs, ((struct rj_cm_id *)id)->handle, attr);
	if (!qp)
		goto fail;
	id->qp = qp;
	id->pd = qp->pd;
	if (!own_cqs(id)) {
		id->send_cq = NULL;
		id->recv_cq = NULL;
	}
	return 0;
fail:
	err = errno;
	destroy_cqs(id);
	errno = err;
	return -1;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { 0 };
	int ret;

	memcpy(&ex, attr, sizeof *attr);
	ex.comp_mask = IBV_QP_INIT_ATTR_PD; /* lies in what pads the shorter struct */
	ex.pd = pd ? pd : id->pd;
	ret = rdma_create_qp_ex(id, &ex);
	if (!ret)
		memcpy(attr, &ex, offsetof(struct ibv_qp_init_attr, sq_sig_all));
	return ret;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

/* complete_xrc gives a shared receive queue of XRC the domain and the completion queue that its program
 * does not bring: those of the id's target. */
static int complete_xrc(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		attr->xrcd = rj_cm_xrcd(id->verbs);
	if (!attr->xrcd)
		return -1;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (!id->recv_cq && create_cqs(id, 0, attr->attr.max_wr))
			return -1;
		if ((uint32_t)id->recv_cq->cqe < attr->attr.max_wr && (errno = ibv_resize_cq(id->recv_cq, attr->attr.max_wr)))
			return -1;
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err, made = !id->recv_cq;
	struct ibv_srq *srq;

	if (id->srq || !id->verbs) {
		errno = EINVAL;
		return -1;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC && complete_xrc(id, attr))
		goto fail;
	srq = ibv_create_srq_ex(id->verbs, attr);
	if (!srq)
		goto fail;
	id->srq = srq;
	id->pd = srq->pd;
	return 0;
fail:
	err = errno;
	if (made)
		destroy_cqs(id);
	errno = err;
	return -1;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .srq_context = attr->srq_context, .attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, .pd = pd ? pd : id->pd,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC };
	int ret = rdma_create_srq_ex(id, &ex);

	if (!ret)
		attr->attr = ex.attr;
	return ret;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}

/* Endpoints: addresses by name, and ids that are ready. */

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

EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	struct rj_cm_id *i;
	int err;

	if (rdma_create_id(NULL, &id, NULL, res->ai_port_space))
		return -1;
	i = (struct rj_cm_id *)id;
	id->qp_type = res->ai_qp_type;
	if (res->ai_port_space == RDMA_PS_IB && (errno = TRY(cm_set_qp_type(i->handle, res->ai_qp_type))))
		goto fail;
	if (res->ai_flags & RAI_PASSIVE) {
		if (rdma_bind_addr(id, res->ai_src_addr))
			goto fail;
		i->requests_pd = pd;
		if (attr) {
			i->requests_qp = malloc(sizeof *attr);
			if (!i->requests_qp)
				goto fail;
			*i->requests_qp = *attr;
			i->requests_qp->qp_type = res->ai_qp_type;
		}
		*out = id;
		return 0;
	}
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, 2000) || rdma_resolve_route(id, 2000))
		goto fail;
	if (attr) {
		attr->qp_type = res->ai_qp_type;
		if (rdma_create_qp(id, pd, attr))
			goto fail;
	}
	*out = id;
	return 0;
fail:
	err = errno;
	rdma_destroy_ep(id);
	errno = err;
	return -1;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
