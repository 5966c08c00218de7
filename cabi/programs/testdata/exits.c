/* SPDX-License-Identifier: Apache-2.0 */

/* Programs that end in the middle of a transfer, in every way: exit in one thread or another or
 * in a signal handler, _exit, and a kill, of which the peer learns by the status of its work request. */

#include "kit.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/time.h>

static void *transfer(void *started)
{
	struct ibv_mr *from = new_region(1 << 20), *to = new_region(1 << 20);
	struct side a, b;

	create_pair(&a, &b);
	for (;;) {
		post(&a, IBV_WR_RDMA_WRITE, from, 1 << 20, to);
		CHECK(next(&a).status == IBV_WC_SUCCESS || *(int *)started); /* exit may be under way */
		if (!*(int *)started) {
			char one = 1;

			*(int *)started = 1;
			CHECK(write(((int *)started)[1], &one, 1) == 1);
		}
	}
	return NULL;
}

static void *leave(void *unused)
{
	(void)unused;
	exit(7);
}

static void handler(int sig)
{
	(void)sig;
	exit(7);
}

/* polls_on polls until a signal comes, most likely in the middle of a call. */
static void polls_on(void)
{
	struct itimerval in = { { 0, 0 }, { 0, 50000 } };
	struct side a, b;
	struct ibv_wc wc;

	CHECK(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED)); /* librdmacm has something to say at exit, too */
	create_pair(&a, &b);
	CHECK(signal(SIGALRM, handler) != SIG_ERR);
	CHECK(!setitimer(ITIMER_REAL, &in, NULL));
	for (;;)
		CHECK(!ibv_poll_cq(a.cq, 1, &wc));
}

/* ends forks a program that transfers in a thread and ends in a way; it returns its status. */
static int ends(int way)
{
	int started[2] = { 0 }, ready[2], status;
	pthread_t thread;
	char one;
	pid_t child;

	CHECK(!pipe(ready));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		alarm(170);
		open_device();
		if (way == 3)
			polls_on();
		started[1] = ready[1];
		CHECK(!pthread_create(&thread, NULL, transfer, started));
		CHECK(read(ready[0], &one, 1) == 1);
		if (way == 0)
			exit(7);
		if (way == 1)
			_exit(7);
		CHECK(!pthread_create(&thread, NULL, leave, NULL));
		for (;;)
			pause();
	}
	close(ready[1]);
	close(ready[0]);
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

/* kill_peer has a peer that is killed while this side sends to it. */
static void kill_peer(void)
{
	struct ibv_qp peer_qp = { 0 };
	struct side peer = { .qp = &peer_qp }, me;
	struct { uint32_t qpn; } mine, theirs;
	int to_child[2], to_parent[2], status;
	enum ibv_wc_status got;
	struct ibv_mr *mr;
	pid_t child;

	CHECK(!pipe(to_child) && !pipe(to_parent));
	child = fork();
	CHECK(child >= 0);
	if (!child)
		alarm(170);
	open_device();
	create(&me);
	mine.qpn = me.qp->qp_num;
	mr = new_region(4096);
	CHECK(write(child ? to_child[1] : to_parent[1], &mine, sizeof mine) == sizeof mine);
	CHECK(read(child ? to_parent[0] : to_child[0], &theirs, sizeof theirs) == sizeof theirs);
	peer_qp.qp_num = theirs.qpn;
	connect_to(&me, &peer);
	if (!child) {
		receive(&me, mr, 4096);
		CHECK(write(to_parent[1], "r", 1) == 1);
		CHECK(next(&me).status == IBV_WC_SUCCESS);
		for (;;)
			pause();
	}
	CHECK(read(to_parent[0], &status, 1) == 1);
	post(&me, IBV_WR_SEND, mr, 100, NULL);
	CHECK(next(&me).status == IBV_WC_SUCCESS);
	CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, &status, 0) == child);
	post(&me, IBV_WR_SEND, mr, 100, NULL);
	got = next(&me).status;
	if (got != IBV_WC_RETRY_EXC_ERR)
		fprintf(stderr, "status %s\n", ibv_wc_status_str(got));
	CHECK(got == IBV_WC_RETRY_EXC_ERR);
	destroy(&me);
}

int main(void)
{
	int way;

	for (way = 0; way < 4; way++) {
		int status = ends(way);

		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
			fprintf(stderr, "way %d: status %#x\n", way, status);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	kill_peer();
	return 0;
}
