/* SPDX-License-Identifier: Apache-2.0 */

/* A device is closed while there are objects of it: they do nothing any more, nobody can reach memory by
 * them, and destroying them later is no harm. */

#include "kit.h"

#include <fcntl.h>
#include <malloc.h>

struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_td *td;
	struct ibv_pd *parent;
	struct ibv_mr *from, *to;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_comp_channel *channel;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *group; /* of UD, in a multicast group */
	struct side a, b;
};

static union ibv_gid multicast = { .raw = { [10] = 0xff, 0xff, 239, 83, 9, 1 } };

static void fill(struct objects *o)
{
	struct ibv_td_init_attr td = { 0 };
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1 }, .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	open_device();
	o->context = context;
	o->pd = pd;
	CHECK((o->td = ibv_alloc_td(context, &td)));
	CHECK((o->parent = ibv_alloc_parent_domain(context, &(struct ibv_parent_domain_init_attr){ .pd = pd, .td = o->td })));
	o->from = new_region(4096);
	o->to = new_region(4096);
	CHECK((o->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)));
	CHECK(!ibv_query_gid(context, 1, 0, &to.grh.dgid) && (o->ah = ibv_create_ah(pd, &to)));
	CHECK((o->channel = ibv_create_comp_channel(context)));
	CHECK((o->xrcd = ibv_open_xrcd(context, &xrcd)));
	CHECK((o->srq = ibv_create_srq(pd, &srq)));
	create_pair(&o->a, &o->b);
	attr.send_cq = attr.recv_cq = o->a.cq;
	CHECK((o->group = ibv_create_qp(pd, &attr)));
	CHECK(!ibv_modify_qp(o->group, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	CHECK(!ibv_attach_mcast(o->group, &multicast, 0));
}

static void destroy_all(struct objects *o)
{
	CHECK(!ibv_destroy_qp(o->group));
	destroy(&o->a);
	destroy(&o->b);
	CHECK(!ibv_destroy_srq(o->srq));
	CHECK(!ibv_close_xrcd(o->xrcd));
	CHECK(!ibv_destroy_comp_channel(o->channel));
	CHECK(!ibv_destroy_ah(o->ah));
	CHECK(!ibv_dealloc_mw(o->mw));
	CHECK(!ibv_dereg_mr(o->from) && !ibv_dereg_mr(o->to));
	CHECK(!ibv_dealloc_pd(o->parent) && !ibv_dealloc_td(o->td) && !ibv_dealloc_pd(o->pd));
}

static void do_nothing(struct objects *o)
{
	struct ibv_sge sge = { (uintptr_t)o->from->addr, 8, o->from->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_wc wc;

	CHECK(ibv_post_send(o->a.qp, &wr, &bad));
	CHECK(ibv_post_recv(o->a.qp, &recv, &bad_recv));
	ibv_post_srq_recv(o->srq, &recv, &bad_recv);
	CHECK(ibv_poll_cq(o->a.cq, 1, &wc) <= 0);
	ibv_req_notify_cq(o->a.cq, 0);
	CHECK(!ibv_alloc_pd(o->context) && !ibv_create_cq(o->context, 1, NULL, NULL, 0));
}

/* out_of_reach: a queue pair of an other context of the device writes to a region of one that was closed. */
static void out_of_reach(void)
{
	struct objects gone;
	struct side here;
	struct ibv_mr *from;
	struct ibv_mr to;

	fill(&gone);
	to = *gone.to;
	open_device();
	create(&here);
	from = new_region(4096);
	strcpy(from->addr, "late");
	connect_to(&here, &gone.a);
	CHECK(!ibv_close_device(gone.context));
	post(&here, IBV_WR_RDMA_WRITE, from, 8, &to);
	CHECK(next(&here).status == IBV_WC_RETRY_EXC_ERR);
	CHECK(!((char *)to.addr)[0]);
	do_nothing(&gone);
	destroy_all(&gone);
	destroy(&here);
	CHECK(!ibv_dereg_mr(from) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* domains: those of XRC end with their context, too, unless others have them. */
static void domains(void)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };
	struct ibv_context *contexts[3];
	struct ibv_xrcd *xrcds[3];
	int i;

	CHECK((attr.fd = memfd_create("domain", MFD_CLOEXEC)) >= 0);
	for (i = 0; i < 3; i++) {
		open_device();
		CHECK(!ibv_dealloc_pd(pd));
		contexts[i] = context;
	}
	attr.oflags = O_CREAT | O_EXCL;
	CHECK((xrcds[0] = ibv_open_xrcd(contexts[0], &attr)));
	attr.oflags = 0;
	CHECK((xrcds[1] = ibv_open_xrcd(contexts[1], &attr)));
	CHECK(!ibv_close_device(contexts[0]));
	CHECK((xrcds[2] = ibv_open_xrcd(contexts[2], &attr)));
	CHECK(!ibv_close_device(contexts[1]) && !ibv_close_xrcd(xrcds[2]));
	CHECK(!ibv_open_xrcd(contexts[2], &attr) && errno == ENOENT);
	attr.oflags = O_CREAT | O_EXCL;
	CHECK((xrcds[2] = ibv_open_xrcd(contexts[2], &attr)));
	CHECK(!ibv_close_xrcd(xrcds[0]) && !ibv_close_xrcd(xrcds[1]) && !ibv_close_xrcd(xrcds[2]));
	CHECK(!ibv_close_device(contexts[2]) && !close(attr.fd));
}

int main(void)
{
	struct objects o;
	int i;

	alarm(170);
	mallopt(M_PERTURB, 0x5a); /* freed memory looks like nothing that was there */
	for (i = 0; i < 3; i++) {
		fill(&o);
		CHECK(!ibv_close_device(o.context));
		do_nothing(&o);
		destroy_all(&o);
	}
	for (i = 0; i < 3; i++) { /* and never destroyed */
		fill(&o);
		CHECK(!ibv_close_device(o.context));
	}
	domains();
	out_of_reach();
	open_device(); /* which is as good as new */
	exchange();
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
