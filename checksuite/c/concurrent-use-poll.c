/* SPDX-License-Identifier: Apache-2.0 */

/* A thread polls a completion queue that main destroys. The right one has ended by then. */

#include "suite.h"

static int stop, polls;

static void *poller(void *cq)
{
	struct ibv_wc wc;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE) && ibv_poll_cq(cq, 1, &wc) >= 0)
		__atomic_add_fetch(&polls, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(void)
{
	struct side *s = side();
	struct ibv_cq *cq = s->cq;
	pthread_t t;

	CHECK(!ibv_destroy_qp(s->qp));
	s->qp = NULL;
	t = thread(poller, cq);
	while (__atomic_load_n(&polls, __ATOMIC_RELAXED) < 1000)
		;
	if (!MISTAKE) {
		__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
		join(t);
	}
	CHECK(!ibv_destroy_cq(cq));
	s->cq = NULL;
	if (MISTAKE) {
		__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
		join(t);
	}
	return finish();
}
