/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A completion queue that was created for one thread is read by two at once. The right threads take turns by a
 * mutex.
 */

#include "suite.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_cq_ex *cq;
static int inside, waiting;

static void *reader(void *second)
{
	struct ibv_poll_cq_attr attr = { 0 };

	if (second)
		__atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
	if (!MISTAKE)
		pthread_mutex_lock(&mutex);
	while (ibv_start_poll(cq, &attr) == ENOENT)
		;
	__atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
	while (MISTAKE && !second && !__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
		;
	if (MISTAKE && !second)
		usleep(200000); /* the other is in its call, or waits for a lock of the library */
	ibv_end_poll(cq);
	if (!MISTAKE)
		pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct pair p;
	struct ibv_mr *from, *to;
	pthread_t one, two;
	int i;

	open_device();
	CHECK((cq = ibv_create_cq_ex(context, &attr)));
	p = pair(.cq = ibv_cq_ex_to_cq(cq));
	from = region(PAGE);
	to = region(PAGE);
	for (i = 0; i < 2; i++)
		post_write(p.a, from, 0, 64, to, 0, SIGNALED);
	while (ibv_start_poll(cq, &(struct ibv_poll_cq_attr){ 0 }) == ENOENT)
		;
	ibv_end_poll(cq);
	post_write(p.a, from, 0, 64, to, 0, SIGNALED);
	one = thread(reader, NULL);
	while (MISTAKE && !__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
		;
	two = thread(reader, cq);
	join(one);
	join(two);
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	return finish();
}
