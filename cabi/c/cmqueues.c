/* SPDX-License-Identifier: Apache-2.0 */

/* Queue pairs, shared receive queues and completion queues of ids. */

#include "cm.h"

#include <rdma/rdma_verbs.h>

/* create_cqs creates completion queues for an id if the program passes none. */
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

/* own_cqs reports whether the queues were created here. The program's are not destroyed with the id. */
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
		       attr->recv_cq || id->recv_cq || attr->srq ? 0 : attr->cap.max_recv_wr)) /* its XRC receive queue may have created one */
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
	ex.comp_mask = IBV_QP_INIT_ATTR_PD; /* overlaps the padding of the shorter struct */
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

/* complete_xrc gives a shared receive queue of XRC, if its program does not, the domain and the completion queue
 * of the id's target. */
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
