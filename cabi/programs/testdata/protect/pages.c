/* SPDX-License-Identifier: Apache-2.0 */

/* A program that handles faults of its own, with all signals blocked, while pages of its receive are protected. */

#include "../../../../checksuite/c/suite.h"

#include <setjmp.h>

static sigjmp_buf back;
static volatile int handled;
static void *volatile seen;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	handled++;
	seen = info->si_addr;
	siglongjmp(back, 1);
}

static volatile char *touched;

static void on_user(int sig)
{
	(void)sig;
	*touched = 1;
}

/* faults has real faults reach the program, each with its address. */
static void faults(char *bad)
{
	int i;

	for (i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			bad[i] = 1;
		CHECK(handled == i + 1 && seen == bad + i);
	}
}

int main(int n, char **args)
{
	const char *what = n > 1 ? args[1] : "";
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(4 * PAGE);
	volatile char *m = to->addr;
	struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, old;
	char *bad = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all;
	int fds[2], status;
	pid_t child;

	sigfillset(&all);
	CHECK(bad != MAP_FAILED && !pthread_sigmask(SIG_BLOCK, &all, NULL));
	if (!strcmp(what, "handler-before"))
		CHECK(!sigaction(SIGSEGV, &a, NULL));
	post_receive(p.b, to, 0, 4 * PAGE);
	if (!strcmp(what, "crash-without-handler"))
		*bad = 1;
	CHECK(!sigaction(SIGSEGV, &a, &old));
	CHECK(strcmp(what, "handler-before") || old.sa_sigaction == on_fault);
	faults(bad);
	if (!strcmp(what, "crash")) {
		signal(SIGSEGV, SIG_DFL);
		*bad = 1;
	}
	if (!strcmp(what, "fork")) {
		child = fork();
		if (!child) {
			memset(to->addr, 2, 4 * PAGE);
			_exit(handled != 3);
		}
		CHECK(waitpid(child, &status, 0) == child && !status);
	}
	if (!strcmp(what, "handler-that-blocks")) {
		touched = m + PAGE;
		a.sa_handler = on_user;
		a.sa_flags = 0;
		sigfillset(&a.sa_mask);
		sigemptyset(&all);
		sigaddset(&all, SIGUSR2);
		CHECK(!sigaction(SIGUSR2, &a, NULL) && !pthread_sigmask(SIG_UNBLOCK, &all, NULL) && !raise(SIGUSR2));
	}
	if (!strcmp(what, "touch"))
		m[PAGE + 3] = 1;
	if (!strcmp(what, "call"))
		CHECK(!pipe(fds) && write(fds[1], "x", 1) == 1 && read(fds[0], to->addr, 1) == -1 && errno == EFAULT);
	if (!strcmp(what, "write")) { /* a peer may write where a receive is posted */
		post_write(p.a, from, 0, 64, to, PAGE, SIGNALED);
		done(p.a);
	}
	if (!strcmp(what, "shared")) { /* and several receives have the same memory */
		post_receive(p.b, to, 0, 4 * PAGE);
		m[PAGE] = 0;
		post_send(p.a, from, 0, 64, SIGNALED);
		done(p.a);
		done(p.b);
	}
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	CHECK(handled == 3);
	m[PAGE] = 3;
	return finish();
}
