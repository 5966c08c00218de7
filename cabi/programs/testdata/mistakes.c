/* SPDX-License-Identifier: Apache-2.0 */

/* A mistake for the checker to find, or the program that looks like it and has none: the argument names it. */

#include "kit.h"

#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/stat.h>

static struct side a, b;
static struct ibv_mr *from, *to;

static void begin(void)
{
	open_device();
	from = new_region(8192);
	to = new_region(8192);
	create_pair(&a, &b);
}

static void end_region(struct ibv_mr *mr)
{
	void *memory = mr->addr;

	CHECK(!ibv_dereg_mr(mr));
	CHECK(!munmap(memory, 8192));
}

static void end(void)
{
	destroy(&a);
	destroy(&b);
	end_region(from);
	end_region(to);
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
}

static void message(void)
{
	receive(&b, to, 100);
	post(&a, IBV_WR_SEND, from, 100, NULL);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
}

static void right(void)
{
	begin();
	message();
	end();
}

static void send_modified(void)
{
	begin();
	receive(&b, to, 100);
	post(&a, IBV_WR_SEND, from, 100, NULL);
	strcpy(from->addr, "changed");
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
	end();
}

static void destroyed_qp(void)
{
	struct ibv_qp *qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	begin();
	qp = a.qp;
	destroy(&a);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	create(&a);
	end();
}

static void destroyed_post(void)
{
	struct side old;
	struct ibv_recv_wr wr = { 0 }, *bad;

	begin();
	old = a;
	destroy(&a);
	CHECK(ibv_post_recv(old.qp, &wr, &bad) == EINVAL);
	create(&a);
	end();
}

static void destroyed_cq(void)
{
	struct side old;
	struct ibv_wc wc;

	begin();
	old = a;
	destroy(&a);
	CHECK(ibv_poll_cq(old.cq, 1, &wc) < 0);
	create(&a);
	end();
}

static void dereg_twice(void)
{
	struct ibv_mr *mr;

	begin();
	mr = new_region(4096);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(ibv_dereg_mr(mr) == EINVAL && errno == EINVAL);
	end();
}

static void id_twice(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_destroy_id(id));
	CHECK(rdma_destroy_id(id) == -1 && errno == EINVAL);
	rdma_destroy_event_channel(channel);
}

static void ids(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id, *listener;

	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_listen(listener, 1));
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

static void many_objects(void)
{
	int i;

	begin();
	for (i = 0; i < 5000; i++)
		CHECK(!ibv_dereg_mr(ibv_reg_mr(pd, from->addr, 8192, 0)));
	end();
}

static void leak(void)
{
	begin();
	CHECK(ibv_alloc_pd(context));
}

static void forks(void)
{
	int status;

	begin();
	if (!fork()) /* whose parent's objects are none of its */
		exit(0);
	CHECK(wait(&status) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end();
}

static void child_open(void)
{
	int status;

	begin();
	if (!fork()) {
		open_device();
		CHECK(!ibv_dealloc_pd(pd));
		CHECK(!ibv_close_device(context));
		exit(0);
	}
	CHECK(wait(&status) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	end();
}

static void fails(void)
{
	begin();
	exit(3);
}

/* events */

static struct ibv_comp_channel *channel;

static void begin_events(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	begin();
	destroy(&a);
	destroy(&b);
	CHECK((channel = ibv_create_comp_channel(context)));
	create(&a);
	CHECK((b.cq = ibv_create_cq(context, 64, NULL, channel, 0)));
	attr.send_cq = attr.recv_cq = b.cq;
	CHECK((b.qp = ibv_create_qp(pd, &attr)));
	connect_to(&a, &b);
	connect_to(&b, &a);
}

static void end_events(void)
{
	destroy(&b);
	CHECK(!ibv_destroy_comp_channel(channel));
	destroy(&a);
	end_region(from);
	end_region(to);
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
}

static void get_event(void)
{
	struct ibv_cq *cq;
	void *unused;

	CHECK(!ibv_get_cq_event(channel, &cq, &unused));
	CHECK(cq == b.cq);
}

static void event_message(void)
{
	receive(&b, to, 100);
	CHECK(!ibv_req_notify_cq(b.cq, 0));
	post(&a, IBV_WR_SEND, from, 100, NULL);
	get_event();
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
}

static void acknowledged(void)
{
	begin_events();
	event_message();
	event_message();
	ibv_ack_cq_events(b.cq, 2);
	end_events();
}

static void unacknowledged(void)
{
	begin_events();
	event_message();
	end_events();
}

static void *acknowledge(void *unused)
{
	usleep(300000);
	ibv_ack_cq_events(b.cq, 1);
	return unused;
}

static void acknowledged_late(void)
{
	pthread_t thread;

	begin_events();
	event_message();
	CHECK(!pthread_create(&thread, NULL, acknowledge, NULL));
	end_events();
	CHECK(!pthread_join(thread, NULL));
}

static void event_left(void)
{
	begin_events();
	event_message();
}

static void found_by_polling(void)
{
	begin_events();
	receive(&b, to, 100);
	CHECK(!ibv_req_notify_cq(b.cq, 0));
	post(&a, IBV_WR_SEND, from, 100, NULL);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
}

static void completion_left(void) { found_by_polling(); }

static void completion_discarded(void)
{
	found_by_polling();
	end_events();
}

static void polled(void)
{
	struct pollfd p;

	begin_events();
	p = (struct pollfd){ channel->fd, POLLIN, 0 };
	CHECK(!poll(&p, 1, 0));
	event_message();
	ibv_ack_cq_events(b.cq, 1);
	end_events();
}

static void *get_in_thread(void *unused)
{
	get_event();
	return unused;
}

/* The thread that waits is there before the queue is armed. */
static void armed_later(void)
{
	pthread_t thread;

	begin_events();
	CHECK(!pthread_create(&thread, NULL, get_in_thread, NULL));
	usleep(300000);
	receive(&b, to, 100);
	CHECK(!ibv_req_notify_cq(b.cq, 0));
	post(&a, IBV_WR_SEND, from, 100, NULL);
	CHECK(!pthread_join(thread, NULL));
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
	ibv_ack_cq_events(b.cq, 1);
	end_events();
}

enum { STDERR = 100 };
static int said; /* what stands in for standard error */

static void hear(void)
{
	CHECK(dup2(2, STDERR) == STDERR);
	CHECK((said = fileno(tmpfile())) >= 0);
	CHECK(dup2(said, 2) == 2);
}

/* await_report waits until something was written to standard error, and passes it on. */
static void await_report(void)
{
	char text[1 << 16];
	struct stat st;

	do {
		usleep(10000);
		CHECK(!fstat(said, &st));
	} while (!st.st_size);
	CHECK(dup2(STDERR, 2) == 2);
	st.st_size = pread(said, text, sizeof text, 0);
	CHECK(st.st_size > 0 && write(2, text, st.st_size) == st.st_size);
}

static void *end_after_report(void *unused)
{
	await_report();
	kill(getpid(), SIGKILL);
	return unused;
}

static void unarmed(void)
{
	pthread_t thread;

	hear();
	begin_events();
	receive(&b, to, 100);
	post(&a, IBV_WR_SEND, from, 100, NULL);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(!pthread_create(&thread, NULL, end_after_report, NULL));
	get_event();
}

static void *get_or_end(void *unused)
{
	struct ibv_cq *cq;

	ibv_get_cq_event(channel, &cq, &unused);
	return NULL;
}

/* Nothing is outstanding: another thread may arm the queue whenever it posts something. */
static void idle_thread(void)
{
	pthread_t thread;

	begin_events();
	CHECK(!pthread_create(&thread, NULL, get_or_end, NULL));
	sleep(5);
	_exit(0);
}

static void unarmed_thread(void)
{
	pthread_t thread;

	hear();
	begin_events();
	CHECK(!pthread_create(&thread, NULL, get_in_thread, NULL));
	receive(&b, to, 100);
	post(&a, IBV_WR_SEND, from, 100, NULL);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	await_report();
	_exit(0);
}

/* The request is posted when the queue has been armed: its answer cannot have come before. */
static void request_after_arming(void)
{
	begin_events();
	receive(&b, to, 100);
	receive(&a, to, 100);
	CHECK(!ibv_req_notify_cq(b.cq, 0));
	post(&b, IBV_WR_SEND, from, 100, NULL);
	get_event();
	ibv_ack_cq_events(b.cq, 1);
	CHECK(next(&a).status == IBV_WC_SUCCESS);
	CHECK(next(&b).status == IBV_WC_SUCCESS);
	end_events();
}

/* threads */

static volatile int stop;
static int polls[2]; /* of each thread */
static struct ibv_cq_ex *single;

static void *poll_in_thread(void *cq)
{
	struct ibv_wc wc;

	while (!stop)
		CHECK(ibv_poll_cq(cq, 1, &wc) <= 0);
	return NULL;
}

static struct ibv_cq *polled_by_two;

static void *poll_and_count(void *count)
{
	struct ibv_wc wc;

	while (!stop) {
		CHECK(ibv_poll_cq(polled_by_two, 1, &wc) <= 0);
		__atomic_add_fetch((int *)count, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* get_on waits until both threads have polled as often again as is enough for them to meet. */
static void get_on(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		int from = __atomic_load_n(&polls[i], __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&polls[i], __ATOMIC_SEQ_CST) - from < 1000)
			usleep(1000);
	}
}

static void two_pollers(struct ibv_cq *cq)
{
	pthread_t threads[2];
	int i;

	polled_by_two = cq;
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, poll_and_count, &polls[i]));
	for (i = 0; i < 5; i++) {
		usleep(40000);
		get_on();
	}
	stop = 1;
	for (i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void shared_cq(void)
{
	begin();
	two_pollers(a.cq);
	end();
}

static void make_single(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };

	CHECK((single = ibv_create_cq_ex(context, &attr)));
}

static void single_cq(void)
{
	begin();
	make_single();
	two_pollers(ibv_cq_ex_to_cq(single));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(single)));
	end();
}

static void single_cq_in_turn(void)
{
	pthread_t thread;

	begin();
	make_single();
	stop = 1;
	CHECK(!pthread_create(&thread, NULL, poll_in_thread, single));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!pthread_create(&thread, NULL, poll_in_thread, single));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(single)));
	end();
}

static void *poll_until_gone(void *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) >= 0)
		;
	return NULL;
}

static void destroyed_under_poller(void)
{
	struct ibv_cq *cq;
	pthread_t thread;

	begin();
	CHECK((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	CHECK(!pthread_create(&thread, NULL, poll_until_gone, cq));
	usleep(100000);
	CHECK(!ibv_destroy_cq(cq));
	CHECK(!pthread_join(thread, NULL));
	end();
}

/* memory */

static const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/* new_heap registers a part of heap memory, and free_of frees the memory. */
static struct ibv_mr *new_heap(int access)
{
	struct ibv_mr *mr;
	char *p;

	CHECK((p = malloc(10000)));
	CHECK((mr = ibv_reg_mr(pd, p + 100, 4096, access)));
	return mr;
}

static void free_of(struct ibv_mr *mr) { free((char *)mr->addr - 100); }

static void freed(void)
{
	struct ibv_mr *mr;

	begin();
	mr = new_heap(remote);
	free_of(mr);
	CHECK(!ibv_dereg_mr(mr));
	end();
}

static void freed_posted(void)
{
	struct ibv_mr *mr;

	begin();
	mr = new_heap(IBV_ACCESS_LOCAL_WRITE);
	receive(&b, mr, 100);
	free_of(mr);
	destroy(&b);
	CHECK(!ibv_dereg_mr(mr));
	create(&b);
	end();
}

static void freed_local(void)
{
	struct ibv_mr *mr;

	begin();
	mr = new_heap(IBV_ACCESS_LOCAL_WRITE);
	free_of(mr);
	CHECK(!ibv_dereg_mr(mr));
	end();
}

/* When no queue pair is left, no peer can use the key. */
static void freed_unreachable(void)
{
	struct ibv_mr *mr;

	begin();
	mr = new_heap(remote);
	destroy(&a);
	destroy(&b);
	free_of(mr);
	CHECK(!ibv_dereg_mr(mr));
	create_pair(&a, &b);
	end();
}

static void freed_after(void)
{
	struct ibv_mr *mr;
	char *p, *q;

	begin();
	mr = new_heap(remote);
	CHECK((q = malloc(10000)));
	free(q);
	p = (char *)mr->addr - 100;
	CHECK(!ibv_dereg_mr(mr));
	free(p);
	end();
}

/* Who registers the memory of others, as caches of registrations do, may keep the region when they free it. */
static void freed_elsewhere(void)
{
	static char line[1 << 20];
	struct ibv_mr *mr;
	size_t size = 10000;
	char *p, *other;
	FILE *f;

	begin();
	memset(line, 'x', sizeof line);
	mr = new_heap(remote);
	p = (char *)mr->addr - 100;
	other = malloc(100);
	CHECK((f = fmemopen(line, sizeof line, "r")));
	CHECK(getline(&p, &size, f) > 0 && p + 100 != mr->addr);
	fclose(f);
	CHECK(!ibv_dereg_mr(mr));
	free(p);
	free(other);
	end();
}

/* The Go half starts threads for each device, and each frees heap memory. A receive is posted on all of the heap. */
static void freed_by_go(void)
{
	enum { SIZE = 1 << 20 };
	char *low = malloc(1), *high;
	struct ibv_device **devices;
	struct ibv_mr *heap;

	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 2 * SIZE);
	mallopt(M_TRIM_THRESHOLD, 4 * SIZE);
	CHECK(low && (high = malloc(SIZE)));
	free(high);
	begin();
	CHECK((devices = ibv_get_device_list(NULL)));
	CHECK((heap = ibv_reg_mr(pd, low, (char *)sbrk(0) - low, IBV_ACCESS_LOCAL_WRITE)));
	receive(&b, heap, heap->length);
	while (*devices) {
		CHECK(ibv_open_device(*devices++));
		usleep(20000);
	}
	_exit(0); /* what has a region on its memory is not freed */
}

static void reallocated(void)
{
	struct ibv_mr *mr;
	char *p, *other;

	begin();
	mr = new_heap(remote);
	p = (char *)mr->addr - 100;
	other = malloc(100);
	CHECK((p = realloc(p, 1 << 20)));
	CHECK(!ibv_dereg_mr(mr));
	free(p);
	free(other);
	end();
}

static void unmapped(void)
{
	struct ibv_mr *mr;

	begin();
	mr = new_region(8192);
	CHECK(!munmap(mr->addr, 4096));
	CHECK(!ibv_dereg_mr(mr));
	end();
}

static void dropped(void)
{
	begin();
	CHECK(!madvise(to->addr, 4096, MADV_DONTNEED));
	end();
}

static void advised(void)
{
	begin();
	CHECK(!madvise(to->addr, 4096, MADV_WILLNEED));
	end();
}

static __attribute__((noinline)) struct ibv_mr *stack_region(int after)
{
	char memory[4096];
	struct ibv_mr *mr;

	memset(memory, 1, sizeof memory);
	CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory, remote)));
	if (after)
		return mr;
	CHECK(!ibv_dereg_mr(mr));
	return NULL;
}

static void stack_returned(void)
{
	struct ibv_mr *mr;

	begin();
	mr = stack_region(1);
	message();
	CHECK(!ibv_dereg_mr(mr));
	end();
}

static void stack_used(void)
{
	char memory[4096];
	struct ibv_mr *mr;

	begin();
	CHECK(!stack_region(0));
	CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory, remote)));
	message();
	CHECK(!ibv_dereg_mr(mr));
	end();
}

/* errors */

static void bad_key(void)
{
	struct ibv_mr wrong;

	begin();
	wrong = *to;
	wrong.rkey ^= 0x100;
	post(&a, IBV_WR_RDMA_WRITE, from, 100, &wrong);
}

static void get_async(enum ibv_event_type type)
{
	struct ibv_async_event e;

	CHECK(!ibv_get_async_event(context, &e));
	CHECK(e.event_type == type);
	ibv_ack_async_event(&e);
}

static void error_unread(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	bad_key();
	get_async(IBV_EVENT_QP_ACCESS_ERR);
	do { /* until the completion has come */
		usleep(10000);
		CHECK(!ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	} while (attr.qp_state != IBV_QPS_ERR);
	end();
}

static void error_read(void)
{
	bad_key();
	get_async(IBV_EVENT_QP_ACCESS_ERR);
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
	end();
}

static void fatal_left(void)
{
	struct pollfd p;

	bad_key();
	CHECK(next(&a).status == IBV_WC_REM_ACCESS_ERR);
	p = (struct pollfd){ context->async_fd, POLLIN, 0 };
	CHECK(poll(&p, 1, -1) == 1);
	exit(0);
}

/* builders */

static struct ibv_qp_ex *builder;

static void begin_builder(int with_domain)
{
	struct ibv_td_init_attr none = { 0 };
	struct ibv_parent_domain_init_attr domain = { 0 };
	struct ibv_qp_init_attr_ex attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND };

	begin();
	attr.pd = pd;
	domain.pd = pd;
	if (with_domain) {
		CHECK((domain.td = ibv_alloc_td(context, &none)));
		CHECK((attr.pd = ibv_alloc_parent_domain(context, &domain)));
	}
	CHECK((attr.send_cq = attr.recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	CHECK((builder = ibv_qp_to_qp_ex(ibv_create_qp_ex(context, &attr))));
}

static volatile int builds; /* the first thread */

static void *build(void *unused)
{
	while (!builds)
		usleep(1000);
	ibv_wr_start(builder); /* while the first does: it waits for the lock */
	ibv_wr_abort(builder);
	return unused;
}

static void two_builders(int with_domain)
{
	pthread_t thread;

	if (with_domain)
		hear();
	begin_builder(with_domain);
	CHECK(!pthread_create(&thread, NULL, build, NULL));
	ibv_wr_start(builder);
	builds = 1;
	if (with_domain)
		await_report();
	else
		usleep(200000);
	ibv_wr_abort(builder);
	CHECK(!pthread_join(thread, NULL));
	_exit(0);
}

static void shared_builder(void) { two_builders(0); }
static void single_builder(void) { two_builders(1); }

static void destroyed_builder(void)
{
	begin_builder(0);
	ibv_wr_start(builder);
	ibv_wr_send(builder);
	ibv_wr_abort(builder);
	CHECK(!ibv_destroy_qp(&builder->qp_base));
	ibv_wr_start(builder);
	ibv_wr_send(builder);
	CHECK(ibv_wr_complete(builder) == EINVAL);
	_exit(0);
}

/* objects that structs name */

static void dead_ah(int wrong)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_UD, .sq_sig_all = 1 };
	struct ibv_ah_attr to_self = { .is_global = 1, .port_num = 1 };
	struct ibv_qp_attr q = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct side d;

	begin();
	CHECK((attr.send_cq = attr.recv_cq = d.cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	CHECK((d.qp = ibv_create_qp(pd, &attr)));
	CHECK(!ibv_modify_qp(d.qp, &q, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	q.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(d.qp, &q, IBV_QP_STATE));
	q.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(d.qp, &q, IBV_QP_STATE | IBV_QP_SQ_PSN));
	CHECK(!ibv_query_gid(context, 1, 0, &to_self.grh.dgid));
	CHECK((wr.wr.ud.ah = ibv_create_ah(pd, &to_self)));
	wr.wr.ud.remote_qpn = d.qp->qp_num;
	wr.wr.ud.remote_qkey = 1;
	sge = (struct ibv_sge){ (uintptr_t)from->addr, 100, from->lkey };
	if (wrong) {
		CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
		CHECK(ibv_post_send(d.qp, &wr, &bad) == EINVAL);
	} else {
		CHECK(!ibv_post_send(d.qp, &wr, &bad));
		CHECK(next(&d).status == IBV_WC_SUCCESS);
		CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
	}
	destroy(&d);
	end();
}

static void ah_destroyed(void) { dead_ah(1); }
static void ah_used(void) { dead_ah(0); }

static void qp_on_dead_cq(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC };

	begin();
	CHECK((attr.send_cq = attr.recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	CHECK(!ibv_destroy_cq(attr.send_cq));
	CHECK(!ibv_create_qp(pd, &attr) && errno == EINVAL);
	end();
}

/* connections */

static void expect(struct rdma_event_channel *from, enum rdma_cm_event_type type, struct rdma_cm_event **out)
{
	CHECK(!rdma_get_cm_event(from, out));
	CHECK((*out)->event == type);
}

static void connection(int wrong)
{
	struct sockaddr_storage at;
	struct rdma_event_channel *events;
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 6 };
	struct rdma_cm_id *listener, *id, *peer;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct rdma_cm_event *e;
	union ibv_gid gid;
	int i;

	CHECK(list && (context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(!ibv_query_gid(context, 1, 0, &gid));
	CHECK(!ibv_close_device(context));
	memset(&at, 0, sizeof at);
	((struct sockaddr_in *)&at)->sin_family = AF_INET;
	memcpy(&((struct sockaddr_in *)&at)->sin_addr, gid.raw + 12, 4);
	CHECK((events = rdma_create_event_channel()));
	CHECK(!rdma_create_id(events, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&at));
	CHECK(!rdma_listen(listener, 1));
	((struct sockaddr_in *)&at)->sin_port = rdma_get_src_port(listener);
	CHECK(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 2000));
	expect(events, RDMA_CM_EVENT_ADDR_RESOLVED, &e);
	CHECK(!rdma_ack_cm_event(e));
	CHECK(!rdma_resolve_route(id, 2000));
	expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED, &e);
	CHECK(!rdma_ack_cm_event(e));
	CHECK(!rdma_create_qp(id, NULL, &attr));
	CHECK(!rdma_connect(id, &param));
	expect(events, RDMA_CM_EVENT_CONNECT_REQUEST, &e);
	peer = e->id;
	CHECK(!rdma_ack_cm_event(e));
	memset(&attr, 0, sizeof attr);
	attr.cap = (struct ibv_qp_cap){ 16, 16, 4, 4, 64 };
	attr.qp_type = IBV_QPT_RC;
	CHECK(!rdma_create_qp(peer, NULL, &attr));
	CHECK(!rdma_accept(peer, &param));
	for (i = 0; i < 2; i++) {
		expect(events, RDMA_CM_EVENT_ESTABLISHED, &e);
		CHECK(!rdma_ack_cm_event(e));
	}
	CHECK(!rdma_disconnect(id));
	if (wrong == 5) {
		struct pollfd p = { events->fd, POLLIN, 0 };

		CHECK(poll(&p, 1, -1) == 1);
		exit(0);
	}
	for (i = 0; i < 2 && wrong != 6; i++) {
		expect(events, RDMA_CM_EVENT_DISCONNECTED, &e);
		if (i == 0 && wrong == 1)
			continue;
		CHECK(!rdma_ack_cm_event(e));
		if (i == 1 && wrong == 2)
			CHECK(rdma_ack_cm_event(e) == -1);
	}
	rdma_destroy_qp(peer);
	if (wrong == 4)
		rdma_destroy_qp(peer);
	if (wrong != 3)
		rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(peer));
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(events);
}

static void connected(void) { connection(0); }
static void connection_event(void) { connection(1); }
static void acknowledged_twice(void) { connection(2); }
static void connection_qp(void) { connection(3); }
static void connection_qp_twice(void) { connection(4); }
static void disconnect_left(void) { connection(5); }
static void disconnect_discarded(void) { connection(6); }

static const struct { const char *name; void (*run)(void); } programs[] = {
	{ "right", right }, { "send-modified", send_modified }, { "destroyed-qp", destroyed_qp },
	{ "destroyed-post", destroyed_post }, { "destroyed-cq", destroyed_cq }, { "dereg-twice", dereg_twice },
	{ "id-twice", id_twice }, { "ids", ids }, { "many-objects", many_objects }, { "leak", leak }, { "forks", forks },
	{ "child-open", child_open }, { "fails", fails }, { "acknowledged", acknowledged }, { "unacknowledged", unacknowledged },
	{ "acknowledged-late", acknowledged_late }, { "event-left", event_left }, { "polled", polled },
	{ "completion-left", completion_left }, { "completion-discarded", completion_discarded },
	{ "armed-later", armed_later }, { "unarmed", unarmed }, { "unarmed-thread", unarmed_thread },
	{ "idle-thread", idle_thread },
	{ "request-after-arming", request_after_arming }, { "shared-cq", shared_cq }, { "single-cq", single_cq },
	{ "error-unread", error_unread }, { "error-read", error_read }, { "fatal-left", fatal_left },
	{ "shared-builder", shared_builder }, { "single-builder", single_builder }, { "destroyed-builder", destroyed_builder },
	{ "ah-destroyed", ah_destroyed }, { "ah-used", ah_used }, { "qp-on-dead-cq", qp_on_dead_cq },
	{ "connected", connected }, { "connection-event", connection_event }, { "acknowledged-twice", acknowledged_twice },
	{ "connection-qp", connection_qp }, { "connection-qp-twice", connection_qp_twice },
	{ "disconnect-left", disconnect_left }, { "disconnect-discarded", disconnect_discarded },
	{ "freed", freed }, { "freed-posted", freed_posted }, { "freed-local", freed_local },
	{ "freed-unreachable", freed_unreachable }, { "freed-after", freed_after }, { "freed-elsewhere", freed_elsewhere },
	{ "freed-by-go", freed_by_go }, { "reallocated", reallocated },
	{ "unmapped", unmapped }, { "dropped", dropped }, { "advised", advised }, { "stack-returned", stack_returned },
	{ "stack-used", stack_used },
	{ "single-cq-in-turn", single_cq_in_turn }, { "destroyed-under-poller", destroyed_under_poller },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; i < sizeof programs / sizeof *programs; i++)
		if (argc > 1 && !strcmp(argv[1], programs[i].name)) {
			programs[i].run();
			return 0;
		}
	return 2;
}
