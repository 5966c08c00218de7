/* SPDX-License-Identifier: Apache-2.0 */

/* An MPI program that compares all data: messages of all sizes around a ring, reductions, and one-sided
 * operations on its neighbours' memory. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #x); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank, ranks, left, right;

/* byte is what stands at an offset of what a rank sends in a round. */
static uint8_t byte(int from, int round, int at) { return (uint8_t)(from * 31 + round * 7 + at + at / 251); }

static void fill(uint8_t *p, int n, int from, int round)
{
	for (int i = 0; i < n; i++)
		p[i] = byte(from, round, i);
}

static int holds(const uint8_t *p, int n, int from, int round)
{
	for (int i = 0; i < n; i++)
		if (p[i] != byte(from, round, i))
			return 0;
	return 1;
}

enum { MOST = 1 << 20 };

/* ring sends to the right what came from the left, until all have all. */
static void ring(int size)
{
	uint8_t *to = malloc(MOST), *from = malloc(MOST);
	int owner = rank;

	CHECK(to && from);
	fill(to, size, rank, size);
	for (int hop = 1; hop < ranks; hop++) {
		MPI_Status status;
		uint8_t *swap = to;
		int n;

		CHECK(!MPI_Sendrecv(to, size, MPI_BYTE, right, hop, from, MOST, MPI_BYTE, left, hop, MPI_COMM_WORLD, &status));
		CHECK(!MPI_Get_count(&status, MPI_BYTE, &n) && n == size);
		owner = (owner + ranks - 1) % ranks;
		CHECK(holds(from, size, owner, size));
		to = from;
		from = swap;
	}
	free(to);
	free(from);
}

static void reduce(int n)
{
	int64_t *mine = malloc(sizeof *mine * n), *sum = malloc(sizeof *sum * n);

	CHECK(mine && sum);
	for (int i = 0; i < n; i++)
		mine[i] = (int64_t)(rank + 1) * i;
	CHECK(!MPI_Allreduce(mine, sum, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
	for (int i = 0; i < n; i++)
		CHECK(sum[i] == (int64_t)ranks * (ranks + 1) / 2 * i);
	free(mine);
	free(sum);
}

/* onesided puts into the right neighbour's memory, gets what the left one was given, and counts at rank 0. */
static void onesided(int size)
{
	uint8_t *window = malloc(size), *out = malloc(size), *in = malloc(size);
	int64_t one = 1, before, counter = 0;
	MPI_Win w, c;

	CHECK(window && out && in);
	CHECK(!MPI_Win_create(window, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w));
	CHECK(!MPI_Win_create(&counter, sizeof counter, sizeof counter, MPI_INFO_NULL, MPI_COMM_WORLD, &c));
	fill(out, size, rank, 3);
	MPI_Win_fence(0, w);
	CHECK(!MPI_Put(out, size, MPI_BYTE, right, 0, size, MPI_BYTE, w));
	MPI_Win_fence(0, w);
	CHECK(holds(window, size, left, 3));
	CHECK(!MPI_Get(in, size, MPI_BYTE, left, 0, size, MPI_BYTE, w));
	MPI_Win_fence(0, w);
	CHECK(holds(in, size, (left + ranks - 1) % ranks, 3));
	MPI_Win_fence(0, c);
	for (int i = 0; i < 100; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, c);
		CHECK(!MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, c));
		MPI_Win_unlock(0, c);
		CHECK(before >= i && before < 100 * ranks);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_fence(0, c);
	CHECK(rank || counter == 100 * ranks);
	MPI_Win_free(&w);
	MPI_Win_free(&c);
	free(window);
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(ranks > 1);
	left = (rank + ranks - 1) % ranks;
	right = (rank + 1) % ranks;
	for (int size = 0; size <= MOST; size = size ? size * 4 : 1)
		ring(size);
	reduce(1);
	reduce(100000);
	onesided(100);
	onesided(300000);
	if (!rank)
		printf("%d ranks have what they should\n", ranks);
	MPI_Finalize();
	return 0;
}
