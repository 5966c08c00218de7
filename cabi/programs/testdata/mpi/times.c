/* SPDX-License-Identifier: Apache-2.0 */

/* How long messages between ranks 0 and 1, and reductions over all ranks, take: one line for each length, with the
 * microseconds of one way or of one reduction. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int lengths[] = { 8, 4096, 65536, 1 << 20 };

static void exchange(int rank, char *buf, int n, int times)
{
	for (int i = 0; i < times && rank < 2; i++) {
		if (rank == i % 2)
			MPI_Send(buf, n, MPI_CHAR, !rank, 0, MPI_COMM_WORLD);
		else
			MPI_Recv(buf, n, MPI_CHAR, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

static void reduce(char *buf, char *sum, int n, int times)
{
	for (int i = 0; i < times; i++)
		MPI_Allreduce(buf, sum, n / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	int rank, scale = argc > 1 ? atoi(argv[1]) : 1;
	char *buf = calloc(1, 1 << 20), *sum = calloc(1, 1 << 20);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
		int n = lengths[l], times = scale * (n < 65536 ? 4000 : n < 1 << 20 ? 1000 : 100);
		double began, way, reduction;

		exchange(rank, buf, n, 20);
		MPI_Barrier(MPI_COMM_WORLD);
		began = MPI_Wtime();
		exchange(rank, buf, n, times);
		way = (MPI_Wtime() - began) / times * 1e6;
		MPI_Barrier(MPI_COMM_WORLD);
		reduce(buf, sum, n, 5);
		MPI_Barrier(MPI_COMM_WORLD);
		began = MPI_Wtime();
		reduce(buf, sum, n, times / 4);
		reduction = (MPI_Wtime() - began) / (times / 4) * 1e6;
		if (!rank)
			printf("mpi_message %d %.2f\nmpi_allreduce %d %.2f\n", n, way, n, reduction);
		fflush(stdout);
	}
	MPI_Finalize();
	free(buf);
	free(sum);
	return 0;
}
