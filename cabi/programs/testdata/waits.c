/* SPDX-License-Identifier: Apache-2.0 */

/* Threads in ibv_get_cq_event, and what ends that: events, signals, cancellation, a jump out of a handler. Meanwhile others
 * poll, or wait at another channel of the device. Nobody is woken twice, and no event is lost. */

#include "kit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <time.h>

#define ROUNDS 300

/* A side that waits for events. */
struct waiter {
	struct side side;
	struct ibv_comp_channel *channel;
	int received, sent; /* completions that nobody has asked wait_for for */
};

static struct ibv_mr *from, *to;
static volatile sig_atomic_t handled, returned, prepared = 1;
static sigjmp_buf out;

static void create_waiter(struct waiter *w)
{
	struct ibv_qp_init_attr attr = { .cap = { 16, 16, 4, 4, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	w->received = w->sent = 0;
	CHECK((w->channel = ibv_create_comp_channel(context)));
	CHECK((w->side.cq = ibv_create_cq(context, 64, w, w->channel, 0)));
	attr.send_cq = attr.recv_cq = w->side.cq;
	CHECK((w->side.qp = ibv_create_qp(pd, &attr)));
	CHECK(!ibv_req_notify_cq(w->side.cq, 0));
}

static void destroy_waiter(struct waiter *w)
{
	destroy(&w->side);
	CHECK(!ibv_destroy_comp_channel(w->channel));
}

static void create_pair_of(struct waiter *a, struct waiter *b)
{
	create_waiter(a);
	create_waiter(b);
	connect_to(&a->side, &b->side);
	connect_to(&b->side, &a->side);
}

/* wait_for waits until so many receives and sends have completed. */
static void wait_for(struct waiter *w, int received, int sent)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *of;
	int got;

	while (w->received < received || w->sent < sent) {
		CHECK(!ibv_get_cq_event(w->channel, &cq, &of) && cq == w->side.cq && of == w);
		ibv_ack_cq_events(cq, 1);
		CHECK(!ibv_req_notify_cq(cq, 0));
		while ((got = ibv_poll_cq(cq, 1, &wc))) {
			CHECK(got == 1 && wc.status == IBV_WC_SUCCESS);
			*(wc.opcode == IBV_WC_RECV ? &w->received : &w->sent) += 1;
		}
	}
	w->received -= received;
	w->sent -= sent;
}

static int is_readable(int fd, int timeout)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, timeout);
}

/* answer sends back what comes. */
static void *answer(void *of)
{
	struct waiter *w = of;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wait_for(w, 1, 0);
		receive(&w->side, to, 64);
		post(&w->side, IBV_WR_SEND, from, 64, NULL);
		wait_for(w, 0, 1);
	}
	return NULL;
}

/* bounce has each of two threads wait at a channel of its own, of one device. */
static void bounce(void)
{
	struct waiter a, b;
	pthread_t thread;
	int i;

	create_pair_of(&a, &b);
	receive(&b.side, to, 64);
	CHECK(!pthread_create(&thread, NULL, answer, &b));
	for (i = 0; i < ROUNDS; i++) {
		receive(&a.side, to, 64);
		post(&a.side, IBV_WR_SEND, from, 64, NULL);
		wait_for(&a, 1, 1);
	}
	CHECK(!pthread_join(thread, NULL));
	destroy_waiter(&a);
	destroy_waiter(&b);
}

static int taken;

static void *take_one(void *channel)
{
	struct ibv_cq *cq;
	void *of;

	CHECK(!ibv_get_cq_event(channel, &cq, &of));
	ibv_ack_cq_events(cq, 1);
	__atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* share has several threads wait at one channel, which has queues for each. */
static void share(void)
{
	enum { THREADS = 3 };
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1 }, .qp_type = IBV_QPT_RC };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_recv_wr wr = { 0 }, *bad;
	pthread_t threads[THREADS];
	struct side sides[THREADS];
	int i;

	CHECK(channel);
	for (i = 0; i < THREADS; i++) {
		struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

		CHECK((sides[i].cq = attr.send_cq = attr.recv_cq = ibv_create_cq(context, 1, NULL, channel, 0)));
		CHECK((sides[i].qp = ibv_create_qp(pd, &attr)));
		CHECK(!ibv_modify_qp(sides[i].qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		CHECK(!ibv_req_notify_cq(sides[i].cq, 0));
		CHECK(!pthread_create(&threads[i], NULL, take_one, channel));
	}
	for (i = 0; i < THREADS; i++) {
		struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

		usleep(5000);
		CHECK(__atomic_load_n(&taken, __ATOMIC_SEQ_CST) <= i);
		CHECK(!ibv_modify_qp(sides[i].qp, &error, IBV_QP_STATE));
		CHECK(!ibv_post_recv(sides[i].qp, &wr, &bad)); /* which is flushed */
	}
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (i = 0; i < THREADS; i++)
		destroy(&sides[i]);
	CHECK(taken == THREADS && !is_readable(channel->fd, 0));
	CHECK(!ibv_destroy_comp_channel(channel));
}

/* look polls the descriptor itself, and then does not wait. */
static void look(void)
{
	struct ibv_cq *cq;
	struct waiter a, b;
	void *of;

	create_pair_of(&a, &b);
	receive(&b.side, to, 64);
	CHECK(!fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK));
	CHECK(ibv_get_cq_event(b.channel, &cq, &of) == -1 && errno == EAGAIN);
	post(&a.side, IBV_WR_SEND, from, 64, NULL);
	CHECK(is_readable(b.channel->fd, -1) == 1);
	CHECK(!ibv_get_cq_event(b.channel, &cq, &of) && of == &b);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_get_cq_event(b.channel, &cq, &of) == -1 && errno == EAGAIN && !is_readable(b.channel->fd, 0));
	CHECK(next(&b.side).status == IBV_WC_SUCCESS);
	wait_for(&a, 0, 1);
	destroy_waiter(&a);
	destroy_waiter(&b);
}

static void count(int sig)
{
	(void)sig;
	handled++;
}

static void jump(int sig)
{
	(void)sig;
	handled++;
	siglongjmp(out, 1);
}

struct sender {
	struct waiter *to, *from;
	pthread_t waits;
	int signals; /* 0: until the wait has returned, as the first may come before it */
};

/* signal_and_send sends signals to a thread that waits, each when the one before is handled, and then what it waits
 * for. */
static void *signal_and_send(void *of)
{
	struct sender *s = of;
	int i;

	while (!prepared)
		usleep(1000);
	for (i = 0; s->signals ? i < s->signals : !returned; i++) {
		usleep(10000);
		CHECK(!pthread_kill(s->waits, SIGUSR1));
		while (handled <= i)
			usleep(1000);
	}
	usleep(10000);
	post(&s->from->side, IBV_WR_SEND, from, 64, NULL);
	return NULL;
}

static void handle(void (*f)(int), int flags)
{
	struct sigaction action = { .sa_handler = f, .sa_flags = flags };

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	handled = 0;
}

static void signals(void)
{
	struct waiter a, b;
	struct sender s = { &b, &a, pthread_self(), 1 };
	struct ibv_cq *cq;
	pthread_t thread;
	void *of;

	create_pair_of(&a, &b);
	/* A handler that has the system go on does so. */
	handle(count, SA_RESTART);
	receive(&b.side, to, 64);
	s.signals = 3;
	CHECK(!pthread_create(&thread, NULL, signal_and_send, &s));
	wait_for(&b, 1, 0);
	CHECK(!pthread_join(thread, NULL) && handled == 3);
	wait_for(&a, 0, 1);
	/* Another one ends the wait. */
	handle(count, 0);
	receive(&b.side, to, 64);
	s.signals = 0;
	CHECK(!pthread_create(&thread, NULL, signal_and_send, &s));
	CHECK(ibv_get_cq_event(b.channel, &cq, &of) == -1 && errno == EINTR && handled);
	returned = 1;
	CHECK(!pthread_join(thread, NULL));
	wait_for(&b, 1, 0);
	wait_for(&a, 0, 1);
	/* Out of the wait it leads elsewhere, and others get on. */
	handle(jump, 0);
	receive(&b.side, to, 64);
	s.signals = 1;
	prepared = 0;
	CHECK(!pthread_create(&thread, NULL, signal_and_send, &s));
	if (!sigsetjmp(out, 1)) {
		prepared = 1;
		ibv_get_cq_event(b.channel, &cq, &of);
		CHECK(!"it waits no more");
	}
	CHECK(!pthread_join(thread, NULL));
	CHECK(is_readable(b.channel->fd, -1) == 1);
	wait_for(&b, 1, 0);
	wait_for(&a, 0, 1);
	destroy_waiter(&a);
	destroy_waiter(&b);
}

/* cancel cancels a thread that waits. Another one that does so then is woken. */
static void cancel(void)
{
	struct waiter a, b;
	pthread_t thread;
	void *result;

	create_pair_of(&a, &b);
	receive(&b.side, to, 64);
	CHECK(!pthread_create(&thread, NULL, take_one, b.channel));
	usleep(20000);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	post(&a.side, IBV_WR_SEND, from, 64, NULL);
	wait_for(&b, 1, 0);
	wait_for(&a, 0, 1);
	destroy_waiter(&a);
	destroy_waiter(&b);
}

static int stop;

static void *poller(void *cq)
{
	struct ibv_wc wc;

	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
		CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	return NULL;
}

/* mix has a thread poll another queue of the device while one waits. */
static void mix(void)
{
	struct ibv_cq *other = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct waiter a, b;
	pthread_t polls, waits;
	int i;

	CHECK(other);
	create_pair_of(&a, &b);
	receive(&b.side, to, 64);
	CHECK(!pthread_create(&waits, NULL, answer, &b));
	for (i = 0; i < ROUNDS; i++) {
		if (i == ROUNDS / 3)
			CHECK(!pthread_create(&polls, NULL, poller, other));
		if (i == 2 * ROUNDS / 3) {
			__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
			CHECK(!pthread_join(polls, NULL));
		}
		receive(&a.side, to, 64);
		post(&a.side, IBV_WR_SEND, from, 64, NULL);
		wait_for(&a, 1, 1);
	}
	CHECK(!pthread_join(waits, NULL));
	destroy_waiter(&a);
	destroy_waiter(&b);
	CHECK(!ibv_destroy_cq(other));
}

/* spawn forks while a thread waits. The child has nothing of the device, and ends; the parent goes on. */
static void spawn(void)
{
	struct waiter a, b;
	pthread_t thread;
	int status;
	pid_t pid;

	taken = 0;
	create_pair_of(&a, &b);
	receive(&b.side, to, 64);
	CHECK(!pthread_create(&thread, NULL, take_one, b.channel));
	usleep(20000);
	CHECK((pid = fork()) >= 0);
	if (!pid)
		_exit(is_readable(b.channel->fd, 0));
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!taken);
	post(&a.side, IBV_WR_SEND, from, 64, NULL);
	CHECK(!pthread_join(thread, NULL) && taken == 1);
	CHECK(next(&b.side).status == IBV_WC_SUCCESS);
	wait_for(&a, 0, 1);
	destroy_waiter(&a);
	destroy_waiter(&b);
}

int main(void)
{
	alarm(170);
	open_device();
	from = new_region(4096);
	to = new_region(4096);
	bounce();
	share();
	look();
	signals();
	cancel();
	mix();
	spawn();
	return 0;
}
