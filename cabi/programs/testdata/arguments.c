/* SPDX-License-Identifier: Apache-2.0 */

/* Arguments that cannot be right are errors, as they are elsewhere, and not the program's end. */

#include "kit.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define FAILS(x, e) do { int r_ = (x); if (r_ != (e)) { \
	fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #x, strerror(r_), strerror(e)); exit(1); } } while (0)

static int reg_errno(uintptr_t addr, size_t length, int access)
{
	errno = 0;
	CHECK(!ibv_reg_mr(pd, (void *)addr, length, access));
	return errno;
}

static void regions(void)
{
	FAILS(reg_errno(0, SIZE_MAX, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
	FAILS(reg_errno(0, 4096, IBV_ACCESS_ON_DEMAND), EFAULT);
	FAILS(reg_errno(0, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	FAILS(reg_errno(-4096UL, 4096, IBV_ACCESS_ON_DEMAND), EFAULT);
	FAILS(reg_errno(-4096UL, 8192, IBV_ACCESS_ON_DEMAND), EFAULT);
	FAILS(reg_errno(4096, SIZE_MAX, 0), EFAULT);
	CHECK(!ibv_alloc_null_mr(pd) && errno == EOPNOTSUPP);
	FAILS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
}

/* Memory is looked at also where no descriptor is left to look with. */
static void no_descriptors(void)
{
	struct rlimit old, none;
	char c;

	CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	none = old;
	none.rlim_cur = 0;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	FAILS(reg_errno(4096, 4096, 0), EFAULT);
	CHECK(!ibv_dereg_mr(ibv_reg_mr(pd, &c, 1, IBV_ACCESS_LOCAL_WRITE)));
	CHECK(!setrlimit(RLIMIT_NOFILE, &old));
}

/* What a region allows, its memory must allow, also after it was changed. */
static void rereg(void)
{
	char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *reads = ibv_reg_mr(pd, page, 4096, IBV_ACCESS_REMOTE_READ), *writes = new_region(4096);
	struct ibv_pd *other = ibv_alloc_pd(context);

	CHECK(page != MAP_FAILED && reads && other);
	CHECK(ibv_rereg_mr(reads, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_CMD);
	CHECK(errno == EFAULT);
	CHECK(ibv_rereg_mr(writes, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, page, 4096, 0) == IBV_REREG_MR_ERR_CMD);
	CHECK(errno == EFAULT);
	CHECK(!ibv_rereg_mr(writes, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0));
	CHECK(!ibv_rereg_mr(writes, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, page, 4096, 0));
	CHECK(ibv_rereg_mr(writes, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_CMD);
	CHECK(!ibv_dereg_mr(reads) && !ibv_dereg_mr(writes) && !ibv_dealloc_pd(other));
}

static void requests(void)
{
	static char data[8];
	struct ibv_sge list[2] = { { (uintptr_t)data, 8, 0 }, { (uintptr_t)data, UINT32_MAX, 0 } };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = list, .num_sge = 2 }, *bad;
	struct ibv_recv_wr recv = { .sg_list = list, .num_sge = -1 }, *bad_recv;
	struct ibv_srq_init_attr_ex srq = { .attr = { 4, 1 }, .comp_mask = IBV_SRQ_INIT_ATTR_PD | 1 << 20, .pd = pd };
	struct side a, b;

	create_pair(&a, &b);
	FAILS(ibv_post_send(a.qp, &send, &bad), EINVAL); /* more than memory has */
	CHECK(bad == &send);
	FAILS(ibv_post_recv(a.qp, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv);
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_create_srq_ex(context, &srq) && errno == EOPNOTSUPP);
}

/* Lists that cannot be in memory are refused like other work requests. */
static void lists(void)
{
	struct ibv_sge none = { 0, 8, 0 }, high = { -8UL, 16, 0 };
	struct ibv_sge *lists[] = { NULL, (struct ibv_sge *)-16UL, &none, &high };
	struct ibv_srq_init_attr init = { .attr = { 4, 4 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct side a, b;
	size_t i;

	CHECK(srq);
	create_pair(&a, &b);
	for (i = 0; i < sizeof lists / sizeof *lists; i++) {
		const int outside = i < 2; /* the list itself, not the memory that it names */
		struct ibv_send_wr last = { .opcode = IBV_WR_SEND, .sg_list = lists[i], .num_sge = 1, .send_flags = outside ? 0 : IBV_SEND_INLINE };
		struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .next = &last }, *bad = NULL;
		struct ibv_recv_wr last_recv = { .sg_list = lists[i], .num_sge = outside ? 1 : 0x7fffffff };
		struct ibv_recv_wr recv = { .next = &last_recv }, *bad_recv = NULL;

		FAILS(ibv_post_send(a.qp, &send, &bad), EINVAL);
		CHECK(bad == &last); /* the one before it is posted */
		FAILS(ibv_post_recv(a.qp, &recv, &bad_recv), EINVAL);
		CHECK(bad_recv == &last_recv);
		FAILS(ibv_post_srq_recv(srq, &recv, &bad_recv), EINVAL);
		CHECK(bad_recv == &last_recv);
		FAILS(ibv_post_recv(a.qp, &last_recv, NULL), EINVAL);
		FAILS(ibv_post_srq_recv(srq, &last_recv, NULL), EINVAL);
	}
	destroy(&a);
	destroy(&b);
	CHECK(!ibv_destroy_srq(srq));
}

static void built(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_data_buf none = { NULL, 8 }, huge = { &none, SIZE_MAX };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	struct ibv_qp_ex *x = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	int i;

	CHECK(cq && x);
	for (i = 0; i < 6; i++) {
		ibv_wr_start(x);
		ibv_wr_send(x);
		switch (i) {
		case 0: ibv_wr_set_sge_list(x, 2, NULL); break;
		case 1: ibv_wr_set_sge_list(x, SIZE_MAX / 2, (struct ibv_sge *)&none); break;
		case 2: ibv_wr_set_inline_data(x, NULL, 8); break;
		case 3: ibv_wr_set_inline_data_list(x, 1, &huge); break;
		case 4: ibv_wr_set_inline_data_list(x, 1, NULL); break;
		case 5: ibv_wr_set_inline_data_list(x, SIZE_MAX, &none); break;
		}
		FAILS(ibv_wr_complete(x), EINVAL);
	}
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
}

/* Answers need a place. */
static void places(void)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 4 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct side s;

	create(&s);
	FAILS(ibv_modify_qp(s.qp, NULL, IBV_QP_STATE), EINVAL);
	FAILS(ibv_query_qp(s.qp, NULL, IBV_QP_STATE, NULL), EINVAL);
	FAILS(ibv_query_qp(s.qp, &attr, IBV_QP_STATE, NULL), EINVAL);
	FAILS(ibv_attach_mcast(s.qp, NULL, 0), EINVAL);
	FAILS(ibv_detach_mcast(s.qp, NULL, 0), EINVAL);
	FAILS(ibv_modify_srq(srq, NULL, IBV_SRQ_LIMIT), EINVAL);
	FAILS(ibv_query_srq(srq, NULL), EINVAL);
	CHECK(!ibv_create_ah(pd, NULL) && errno == EINVAL);
	CHECK(ibv_query_pkey(context, 1, 0, NULL) == -1 && errno == EINVAL);
	CHECK(ibv_get_async_event(context, NULL) == -1 && errno == EINVAL);
	CHECK(ibv_poll_cq(s.cq, 1, NULL) < 0 && ibv_poll_cq(s.cq, -1, NULL) < 0 && !ibv_poll_cq(s.cq, 0, NULL));
	destroy(&s);
	CHECK(!ibv_destroy_srq(srq));
}

static void domains(void)
{
	struct ibv_td_init_attr init = { 0 };
	struct ibv_td *td = ibv_alloc_td(context, &init);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
	struct ibv_pd *parent, *child;

	CHECK(td && (parent = ibv_alloc_parent_domain(context, &attr)));
	attr = (struct ibv_parent_domain_init_attr){ .pd = parent };
	CHECK((child = ibv_alloc_parent_domain(context, &attr)));
	FAILS(ibv_dealloc_td(td), EBUSY);
	FAILS(ibv_dealloc_pd(pd), EBUSY);
	FAILS(ibv_dealloc_pd(parent), EBUSY);
	CHECK(!ibv_dealloc_pd(child) && !ibv_dealloc_pd(parent) && !ibv_dealloc_td(td));
}

static void addresses(void)
{
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init;
	union ibv_gid gid;
	struct side s;

	errno = 0;
	CHECK(ibv_query_gid(context, 1, 1, &gid) == -1 && errno == EINVAL);
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	create(&s);
	CHECK(!ibv_modify_qp(s.qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	to.qp_state = IBV_QPS_RTR;
	to.path_mtu = IBV_MTU_1024;
	to.ah_attr.port_num = 1;
	to.ah_attr.grh.dgid = gid; /* but there is no GRH */
	FAILS(ibv_modify_qp(s.qp, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), EINVAL);
	to.ah_attr.is_global = 1;
	to.ah_attr.port_num = 0;
	FAILS(ibv_modify_qp(s.qp, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), EINVAL);
	CHECK(!ibv_create_ah(pd, &to.ah_attr) && errno == EINVAL);
	to.ah_attr.port_num = 1;
	to.dest_qp_num = 0xff000005; /* of which 24 bits count, as of PSNs */
	to.rq_psn = 0xff000006;
	CHECK(!ibv_modify_qp(s.qp, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	to.qp_state = IBV_QPS_RTS;
	to.sq_psn = 0xff000007;
	CHECK(!ibv_modify_qp(s.qp, &to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC));
	CHECK(!ibv_query_qp(s.qp, &to, IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init));
	CHECK(to.dest_qp_num == 5 && to.rq_psn == 6 && to.sq_psn == 7);
	destroy(&s);
	CHECK(mult_to_ibv_rate(-1) == IBV_RATE_MAX);
}

static void ids(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_XRC_SEND };
	struct sockaddr_in here = { .sin_family = AF_INET };
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(NULL, &id, NULL, 0x7777) == -1 && errno == EINVAL);
	CHECK(inet_pton(AF_INET, strchr(getenv("RAMJET_DEVICES"), ':') + 1, &here.sin_addr) == 1);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) && !rdma_bind_addr(id, (struct sockaddr *)&here));
	CHECK(rdma_create_qp(id, NULL, &attr) == -1 && errno == EINVAL); /* XRC has no place among TCP's ports */
	CHECK(rdma_reject(id, NULL, 8) == -1 && errno == EINVAL);
	CHECK(rdma_init_qp_attr(id, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(rdma_join_multicast(id, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(rdma_leave_multicast(id, NULL) == -1 && errno == EINVAL);
	CHECK(!rdma_destroy_id(id));
}

static void nothing(int fd)
{
	struct iovec none = { NULL, 8 }, high = { (void *)-8UL, 16 };
	struct pollfd p = { fd, POLLOUT, 0 };

	CHECK(rsend(fd, NULL, 8, 0) == -1 && errno == EFAULT);
	CHECK(rwritev(fd, &none, 1) == -1 && errno == EFAULT);
	CHECK(rwritev(fd, &high, 1) == -1 && errno == EFAULT);
	CHECK(rwritev(fd, NULL, 1) == -1 && errno == EFAULT);
	CHECK(rreadv(fd, NULL, 1) == -1 && errno == EFAULT);
	CHECK(rreadv(fd, &none, 1) == -1 && errno == EFAULT);
	CHECK(riomap(fd, NULL, 8, PROT_WRITE, 0, -1) == -1);
	CHECK(riounmap(fd, NULL, 8) == -1);
	CHECK(rpoll(NULL, 1, 0) == -1 && errno == EFAULT);
	CHECK(rpoll(&p, (nfds_t)-1, 0) == -1 && errno == EINVAL);
	CHECK(rpoll(&p, 1, 0) == 1);
}

static void sockets(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof here;
	struct iovec iov[2] = { { &here, 1 }, { &here, SIZE_MAX } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)1 << 32 };
	int s[2], l, d;
	char buf[3];

	CHECK(inet_pton(AF_INET, strchr(getenv("RAMJET_DEVICES"), ':') + 1, &here.sin_addr) == 1);
	CHECK((l = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0 && !rbind(l, (struct sockaddr *)&here, sizeof here));
	CHECK(!rgetsockname(l, (struct sockaddr *)&here, &size) && !rlisten(l, 1));
	CHECK((s[0] = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	CHECK(rconnect(s[0], (struct sockaddr *)&here, sizeof here) == -1 && errno == EINPROGRESS);
	CHECK((s[1] = raccept(l, NULL, NULL)) >= 0);
	while (rsend(s[0], "abc", 3, 0) != 3)
		CHECK(errno == EAGAIN);
	CHECK(rrecv(s[1], buf, SIZE_MAX, 0) > 0); /* there is no more than there is room for */
	CHECK(rrecvmsg(s[1], &msg, 0) == -1 && errno == EMSGSIZE);
	CHECK(rsendmsg(s[1], &msg, 0) == -1 && errno == EMSGSIZE);
	nothing(s[0]);
	CHECK((d = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) >= 0);
	CHECK(!rconnect(d, (struct sockaddr *)&here, sizeof here));
	nothing(d);
	msg.msg_iovlen = 2;
	CHECK(rrecvmsg(d, &msg, 0) == -1 && errno == EAGAIN);
	CHECK(!rclose(d) && !rclose(s[0]) && !rclose(s[1]) && !rclose(l));
}

int main(void)
{
	alarm(170);
	open_device();
	regions();
	no_descriptors();
	rereg();
	requests();
	lists();
	built();
	places();
	domains();
	addresses();
	ids();
	sockets();
	return 0;
}
