/* SPDX-License-Identifier: Apache-2.0 */

#include "suite.h"

#include <sched.h>
#include <time.h>

/* No program of the suite takes as long, on any machine. */
#define PATIENCE 60

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_context *context;
struct ibv_pd *pd;

static struct side *sides[16];
static struct ibv_mr *regions[64];
static int n_sides, n_regions;
static pid_t peer;

void open_device(void)
{
	struct ibv_device **list;

	if (context)
		return;
	alarm(PATIENCE);
	CHECK((list = ibv_get_device_list(NULL)) && list[0]);
	CHECK((context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK((pd = ibv_alloc_pd(context)));
}

static int or_else(int v, int standard)
{
	return v ? v : standard;
}

struct side *side_of(struct options o)
{
	struct side *s = calloc(1, sizeof *s);
	struct ibv_qp_init_attr_ex attr = { .qp_type = o.type ? o.type : IBV_QPT_RC, .srq = o.srq };

	open_device();
	CHECK(s && n_sides < 16);
	sides[n_sides++] = s;
	s->options = o;
	if (o.events)
		CHECK((s->channel = ibv_create_comp_channel(context)));
	if (!o.cq)
		CHECK((s->cq = ibv_create_cq(context, or_else(o.cqe, 64), NULL, s->channel, 0)));
	attr.send_cq = attr.recv_cq = o.cq ? o.cq : s->cq;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = or_else(o.depth, 16);
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 4;
	attr.cap.max_inline_data = o.inline_size < 0 ? 0 : or_else(o.inline_size, 64);
	if (o.srq)
		attr.cap.max_recv_wr = 0;
	attr.pd = o.pd ? o.pd : pd;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	if (o.send_ops) {
		attr.send_ops_flags = o.send_ops;
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	}
	CHECK((s->qp = ibv_create_qp_ex(context, &attr)));
	return s;
}

static void start_ud(struct side *s)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

void connect_to(struct side *s, uint32_t qpn, const union ibv_gid *gid)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rc = s->options.type != IBV_QPT_UC;

	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = qpn;
	a.max_dest_rd_atomic = or_else(s->options.dest_rd_atomic, 4);
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.dgid = *gid;
	CHECK(!ibv_modify_qp(s->qp, &a, mask | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 18;
	a.retry_cnt = 7;
	a.rnr_retry = s->options.finite_rnr ? 1 : 7;
	a.max_rd_atomic = or_else(s->options.rd_atomic, 4);
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK(!ibv_modify_qp(s->qp, &a, mask));
}

void connect_sides(struct side *a, struct side *b)
{
	union ibv_gid gid;

	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	connect_to(a, b->qp->qp_num, &gid);
	connect_to(b, a->qp->qp_num, &gid);
}

struct pair pair_of(struct options o)
{
	struct pair p = { side_of(o), side_of(o) };

	if (o.type == IBV_QPT_UD) {
		start_ud(p.a);
		start_ud(p.b);
	} else {
		connect_sides(p.a, p.b);
	}
	return p;
}

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	pthread_t thread;
	int started, ended;
	void (*f)(void *);
	void *arg;
} rescuer = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static void *rescue_later(void *arg)
{
	struct timespec t;

	(void)arg;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 5;
	pthread_mutex_lock(&rescuer.mutex);
	while (!rescuer.ended && pthread_cond_timedwait(&rescuer.cond, &rescuer.mutex, &t) != ETIMEDOUT)
		;
	if (!rescuer.ended)
		rescuer.f(rescuer.arg);
	pthread_mutex_unlock(&rescuer.mutex);
	return NULL;
}

void rescue(void (*f)(void *), void *arg)
{
	rescuer.started = 1;
	rescuer.f = f;
	rescuer.arg = arg;
	rescuer.thread = thread(rescue_later, NULL);
}

static void end_rescue(void)
{
	if (!rescuer.started)
		return;
	pthread_mutex_lock(&rescuer.mutex);
	rescuer.ended = 1;
	pthread_cond_signal(&rescuer.cond);
	pthread_mutex_unlock(&rescuer.mutex);
	join(rescuer.thread);
}

/* take_async_events takes the asynchronous events that have come. */
static void take_async_events(void)
{
	struct ibv_async_event e;
	int flags;

	CHECK((flags = fcntl(context->async_fd, F_GETFL)) >= 0);
	CHECK(!fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK));
	while (!ibv_get_async_event(context, &e))
		ibv_ack_async_event(&e);
}

int finish(void)
{
	int i;

	if (context)
		take_async_events();

	for (i = 0; i < n_sides; i++)
		CHECK(!sides[i]->qp || !ibv_destroy_qp(sides[i]->qp));
	for (i = 0; i < n_sides; i++) {
		CHECK(!sides[i]->cq || !ibv_destroy_cq(sides[i]->cq));
		CHECK(!sides[i]->channel || !ibv_destroy_comp_channel(sides[i]->channel));
		free(sides[i]);
	}
	while (n_regions)
		deregister(regions[0]);
	end_rescue();
	CHECK(!pd || !ibv_dealloc_pd(pd));
	CHECK(!context || !ibv_close_device(context));
	return 0;
}

struct ibv_mr *region_at(void *p, size_t size)
{
	open_device();
	CHECK(n_regions < 64);
	CHECK((regions[n_regions] = ibv_reg_mr(pd, p, size, ACCESS)));
	return regions[n_regions++];
}

struct ibv_mr *region(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return region_at(p, size);
}

struct ibv_mr *small_region(size_t size)
{
	static _Alignas(64) char memory[4 * PAGE];
	static size_t used = 64;
	char *p = memory + used;

	used += (size + 127) / 64 * 64; /* 64 bytes of no region behind each */
	CHECK(used <= sizeof memory);
	return region_at(p, size);
}

void deregister(struct ibv_mr *mr)
{
	int i;

	for (i = 0; i < n_regions && regions[i] != mr; i++)
		;
	CHECK(i < n_regions);
	regions[i] = regions[--n_regions];
	CHECK(!ibv_dereg_mr(mr));
}

static struct ibv_sge piece(struct ibv_mr *mr, size_t at, size_t length)
{
	return (struct ibv_sge){ (uintptr_t)mr->addr + at, length, mr->lkey };
}

void post_receive(struct side *s, struct ibv_mr *mr, size_t at, size_t length)
{
	struct ibv_sge sge = piece(mr, at, length);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = length > 0 }, *bad;

	CHECK(!ibv_post_recv(s->qp, &wr, &bad));
}

void post_srq(struct ibv_srq *srq, struct ibv_mr *mr, size_t at, size_t length)
{
	struct ibv_sge sge = piece(mr, at, length);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = length > 0 }, *bad;

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void post(struct side *s, struct ibv_send_wr wr, struct ibv_sge sge)
{
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = sge.length > 0;
	CHECK(!ibv_post_send(s->qp, &wr, &bad));
}

void post_send(struct side *s, struct ibv_mr *mr, size_t at, size_t length, unsigned flags)
{
	post(s, (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .send_flags = flags }, piece(mr, at, length));
}

static void one_sided(struct side *s, enum ibv_wr_opcode op, struct ibv_sge sge, uint64_t addr,
	uint32_t rkey, unsigned flags)
{
	struct ibv_send_wr wr = { .opcode = op, .send_flags = flags };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	post(s, wr, sge);
}

void post_imm(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *to, size_t to_at,
	unsigned flags)
{
	one_sided(s, IBV_WR_RDMA_WRITE_WITH_IMM, piece(mr, at, length), (uintptr_t)to->addr + to_at, to->rkey, flags);
}

void post_write(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *to,
	size_t to_at, unsigned flags)
{
	one_sided(s, IBV_WR_RDMA_WRITE, piece(mr, at, length), (uintptr_t)to->addr + to_at, to->rkey, flags);
}

void post_read(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *from,
	size_t from_at, unsigned flags)
{
	one_sided(s, IBV_WR_RDMA_READ, piece(mr, at, length), (uintptr_t)from->addr + from_at, from->rkey, flags);
}

void post_add(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *to, size_t to_at,
	unsigned flags)
{
	one_sided(s, IBV_WR_ATOMIC_FETCH_AND_ADD, piece(mr, at, length), (uintptr_t)to->addr + to_at, to->rkey, flags);
}

void post_remote(struct side *s, enum ibv_wr_opcode op, struct ibv_mr *mr, size_t length, uint64_t addr, uint32_t rkey)
{
	one_sided(s, op, piece(mr, 0, length), addr, rkey, SIGNALED);
}

void post_datagram(struct side *s, struct side *to, struct ibv_ah *ah, struct ibv_mr *mr, size_t at,
	size_t length, unsigned flags)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = flags,
		.wr.ud = { .ah = ah, .remote_qpn = to->qp->qp_num, .remote_qkey = QKEY } };

	post(s, wr, piece(mr, at, length));
}

struct ibv_ah *address_of_device(struct ibv_pd *in)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah;

	CHECK(!ibv_query_gid(context, 1, 0, &a.grh.dgid));
	CHECK((ah = ibv_create_ah(in, &a)));
	return ah;
}

static struct ibv_cq *cq_of(struct side *s)
{
	return s->options.cq ? s->options.cq : s->cq;
}

struct ibv_wc next(struct side *s)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq_of(s), 1, &wc)))
		;
	CHECK(n == 1);
	return wc;
}

void done(struct side *s)
{
	struct ibv_wc wc = next(s);

	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

int move(struct side *a, struct side *b, int milliseconds)
{
	long long end = now() + milliseconds;
	struct ibv_wc wc;
	int n = 0;

	while (now() < end) {
		n += ibv_poll_cq(cq_of(a), 1, &wc) > 0;
		n += ibv_poll_cq(cq_of(b), 1, &wc) > 0;
		sched_yield();
	}
	return n;
}

pthread_t thread(void *(*f)(void *), void *arg)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, f, arg));
	return t;
}

void join(pthread_t t)
{
	CHECK(!pthread_join(t, NULL));
}

int start_peer(int (*f)(int fd))
{
	int fds[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	CHECK((peer = fork()) >= 0);
	if (!peer) {
		close(fds[0]);
		exit(f(fds[1]));
	}
	close(fds[1]);
	return fds[0];
}

int end_peer(int status)
{
	int other;

	CHECK(waitpid(peer, &other, 0) == peer);
	return status ? status : WIFEXITED(other) ? WEXITSTATUS(other) : 1;
}

void tell(int fd, const void *p, size_t n)
{
	CHECK(write(fd, p, n) == (ssize_t)n);
}

void hear(int fd, void *p, size_t n)
{
	CHECK(recv(fd, p, n, MSG_WAITALL) == (ssize_t)n);
}

struct card meet(int fd, struct side *s, struct ibv_mr *mr)
{
	struct card mine = { .qpn = s->qp->qp_num, .rkey = mr->rkey, .addr = (uintptr_t)mr->addr }, theirs;

	CHECK(!ibv_query_gid(context, 1, 0, &mine.gid));
	tell(fd, &mine, sizeof mine);
	hear(fd, &theirs, sizeof theirs);
	connect_to(s, theirs.qpn, &theirs.gid);
	tell(fd, "c", 1); /* a side that is not connected takes no packet */
	hear(fd, &mine, 1);
	return theirs;
}

/* here is the device's address, which its GID has. */
static struct sockaddr_in here(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	union ibv_gid gid;

	open_device();
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	memcpy(&a.sin_addr, gid.raw + 12, 4);
	return a;
}

struct rdma_cm_event *cm_next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	CHECK(!rdma_get_cm_event(channel, &e));
	if (e->event != type)
		fprintf(stderr, "event %s, not %s\n", rdma_event_str(e->event), rdma_event_str(type));
	CHECK(e->event == type);
	return e;
}

void cm_take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	CHECK(!rdma_ack_cm_event(cm_next(channel, type)));
}

struct rdma_cm_id *cm_listen(struct rdma_event_channel *channel)
{
	struct sockaddr_in a = here();
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&a) && !rdma_listen(id, 4));
	return id;
}

struct rdma_cm_id *cm_resolved(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct sockaddr_in a = here();
	struct rdma_cm_id *id;

	a.sin_port = rdma_get_src_port(listener);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 5000));
	cm_take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 5000));
	cm_take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void cm_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	CHECK(!rdma_create_qp(id, NULL, &attr));
}

struct cm_pair cm_request(struct rdma_conn_param *param)
{
	struct rdma_cm_event *e;
	struct cm_pair c;

	CHECK((c.at_client = rdma_create_event_channel()) && (c.at_server = rdma_create_event_channel()));
	c.listener = cm_listen(c.at_server);
	c.client = cm_resolved(c.at_client, c.listener);
	cm_queue_pair(c.client);
	CHECK(!rdma_connect(c.client, param));
	e = cm_next(c.at_server, RDMA_CM_EVENT_CONNECT_REQUEST);
	c.server = e->id;
	CHECK(!rdma_ack_cm_event(e));
	cm_queue_pair(c.server);
	return c;
}

struct cm_pair cm_connect(struct rdma_conn_param *client, struct rdma_conn_param *server)
{
	struct cm_pair c = cm_request(client);

	CHECK(!rdma_accept(c.server, server));
	cm_take(c.at_client, RDMA_CM_EVENT_ESTABLISHED);
	cm_take(c.at_server, RDMA_CM_EVENT_ESTABLISHED);
	return c;
}

void cm_end(struct cm_pair *c)
{
	struct rdma_cm_id *ids[] = { c->client, c->server };
	int i;

	for (i = 0; i < 2; i++) {
		if (!ids[i])
			continue;
		if (ids[i]->qp)
			rdma_destroy_qp(ids[i]);
		CHECK(!rdma_destroy_id(ids[i]));
	}
	CHECK(!c->listener || !rdma_destroy_id(c->listener));
	rdma_destroy_event_channel(c->at_client);
	rdma_destroy_event_channel(c->at_server);
}
