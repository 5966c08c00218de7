/* SPDX-License-Identifier: Apache-2.0 */

/* A thread posts receives, until the queue is full, to a queue pair that main destroys. */

#include "suite.h"

static int stop, posts;
static struct ibv_mr *to;

static void *poster(void *qp)
{
	struct ibv_sge sge = { (uintptr_t)to->addr, 64, to->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		ibv_post_recv(qp, &wr, &bad);
		__atomic_add_fetch(&posts, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(void)
{
	struct pair p = pair();
	pthread_t t;

	to = region(PAGE);
	t = thread(poster, p.b->qp);
	while (__atomic_load_n(&posts, __ATOMIC_RELAXED) < 1000)
		;
	if (!MISTAKE) {
		__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
		join(t);
	}
	CHECK(!ibv_destroy_qp(p.b->qp));
	p.b->qp = NULL;
	if (MISTAKE) {
		__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
		join(t);
	}
	return finish();
}
