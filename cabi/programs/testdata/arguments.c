/* SPDX-License-Identifier: Apache-2.0 */

/* Arguments that cannot be right are errors, as they are elsewhere, and not the program's end. */

#include "kit.h"

#include <arpa/inet.h>
#include <rdma/rsocket.h>
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
	FAILS(reg_errno(-4096UL, 4096, IBV_ACCESS_ON_DEMAND), EFAULT);
	FAILS(reg_errno(-4096UL, 8192, IBV_ACCESS_ON_DEMAND), EFAULT);
	FAILS(reg_errno(4096, SIZE_MAX, 0), EFAULT);
	FAILS(reg_errno((uintptr_t)&errno, 0, 0), EINVAL);
	FAILS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
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
	destroy(&s);
	CHECK(mult_to_ibv_rate(-1) == IBV_RATE_MAX);
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
	CHECK((d = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) >= 0);
	msg.msg_iovlen = 2;
	CHECK(rrecvmsg(d, &msg, 0) == -1 && errno == EAGAIN);
	CHECK(!rclose(d) && !rclose(s[0]) && !rclose(s[1]) && !rclose(l));
}

int main(void)
{
	alarm(60);
	open_device();
	regions();
	domains();
	addresses();
	sockets();
	return 0;
}
