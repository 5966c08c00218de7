/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two threads, each with a queue pair, WRITE a record of a table: the same one, or each its own. A barrier makes
 * both post before either polls.
 */

#include "suite.h"

static pthread_barrier_t both;
static struct ibv_mr *from, *table;

struct job {
	struct pair pair;
	size_t at;
};

static void *writer(void *arg)
{
	struct job *j = arg;

	post_write(j->pair.a, from, 0, 256, table, j->at, SIGNALED);
	pthread_barrier_wait(&both);
	done(j->pair.a);
	return NULL;
}

int main(void)
{
	struct job jobs[2];
	pthread_t t[2];
	int i;

	from = region(PAGE);
	table = region(PAGE);
	pthread_barrier_init(&both, NULL, 2);
	for (i = 0; i < 2; i++) {
		jobs[i] = (struct job){ pair(), MISTAKE ? 256 : i * 256 };
		t[i] = thread(writer, &jobs[i]);
	}
	join(t[0]);
	join(t[1]);
	return finish();
}
