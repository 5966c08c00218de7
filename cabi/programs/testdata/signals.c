/* SPDX-License-Identifier: Apache-2.0 */

/* The program's signals reach its own handlers in its own threads, whose masks stay as they
 * are; its handler of faults gets those that are its own. Its limit of descriptors stays, too. */

#include "kit.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static volatile int elsewhere;
static pthread_t me;
static sigjmp_buf back;

static void tick(int sig)
{
	char deep[16384]; /* more than a goroutine's stack has */

	(void)sig;
	memset(deep, 1, sizeof deep);
	__asm__ volatile("" ::"r"(deep) : "memory");
	ticks++;
	if (!pthread_equal(pthread_self(), me))
		elsewhere = 1;
}

static volatile sig_atomic_t urgent;

static void urge(int sig)
{
	(void)sig;
	urgent++;
}

static void fault(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* deep has more than what a thread needs for calls into Go. */
static void deep(int sig)
{
	char room[40960];

	(void)sig;
	memset(room, 0xa5, sizeof room);
	__asm__ volatile("" ::"r"(room) : "memory");
	ticks++;
}

static volatile int enough;

/* poller only polls, and needs little of its stack in Go for that. */
static void *poller(void *cq)
{
	struct ibv_wc wc;

	while (!enough)
		CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	return NULL;
}

/* Handlers have room in other threads, too, and keep it when collections of garbage have stacks shrink. */
static void elsewhere_deep(void)
{
	struct sigaction action = { .sa_handler = deep };
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	pthread_t threads[4];
	int i, j;

	CHECK(cq && !sigaction(SIGUSR1, &action, NULL));
	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, poller, cq));
	for (j = 0; j < 500; j++) {
		for (i = 0; i < 4; i++)
			CHECK(!pthread_kill(threads[i], SIGUSR1));
		usleep(200);
	}
	enough = 1;
	for (i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!ibv_destroy_cq(cq));
}

int main(void)
{
	struct sigaction tick_action = { .sa_handler = tick }, fault_action = { .sa_handler = fault },
		urge_action = { .sa_handler = urge }, got;
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	struct rlimit files, files_after;
	sigset_t mask, after;
	int i;

	me = pthread_self();
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK(!pthread_sigmask(SIG_SETMASK, &mask, NULL));
	CHECK(!sigaction(SIGALRM, &tick_action, NULL));
	CHECK(!sigaction(SIGSEGV, &fault_action, NULL));
	CHECK(!sigaction(SIGURG, &urge_action, NULL));
	CHECK(!getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = 256;
	CHECK(!setrlimit(RLIMIT_NOFILE, &files));
	open_device();
	CHECK(!sigaction(SIGALRM, NULL, &got) && got.sa_handler == tick);
	CHECK(!sigaction(SIGURG, NULL, &got) && got.sa_handler == urge);
	CHECK(!raise(SIGURG) && urgent == 1);
	CHECK(!getrlimit(RLIMIT_NOFILE, &files_after) && files_after.rlim_cur == files.rlim_cur);
	CHECK(!setitimer(ITIMER_REAL, &every, NULL));
	for (i = 0; i < 200 || ticks < 20; i++)
		exchange();
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
	CHECK(!elsewhere && urgent == 1);
	CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &after));
	CHECK(sigismember(&after, SIGUSR2) && !sigismember(&after, SIGALRM) && !sigismember(&after, SIGTERM));
	if (!sigsetjmp(back, 1)) {
		*(volatile int *)16 = 1;
		CHECK(!"the fault was not noticed");
	}
	exchange();
	elsewhere_deep();
	return 0;
}
