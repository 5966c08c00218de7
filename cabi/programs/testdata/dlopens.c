/* SPDX-License-Identifier: Apache-2.0 */

/* A program that is not linked with libibverbs, loads it at run time, lets it go and loads it
 * again. Its signal handlers are there before, and others come after, on a stack of their own. */

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); exit(1); } } while (0)

static char *alternate;
static volatile sig_atomic_t ticks, astray;

static void tick(int sig)
{
	char here;

	(void)sig;
	if (&here < alternate || &here >= alternate + SIGSTKSZ)
		astray = 1;
	ticks++;
}

static void ignored(int sig) { (void)sig; }

static void use(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	struct ibv_device **(*list)(int *) = (struct ibv_device **(*)(int *))dlsym(lib, "ibv_get_device_list");
	void (*free_list)(struct ibv_device **) = (void (*)(struct ibv_device **))dlsym(lib, "ibv_free_device_list");
	struct ibv_context *(*open)(struct ibv_device *) = (struct ibv_context *(*)(struct ibv_device *))dlsym(lib, "ibv_open_device");
	int (*close)(struct ibv_context *) = (int (*)(struct ibv_context *))dlsym(lib, "ibv_close_device");
	struct ibv_context *context;
	struct ibv_device **devices;
	int n;

	CHECK(lib && list && free_list && open && close);
	CHECK((devices = list(&n)) && n == 1);
	CHECK((context = open(devices[0])));
	free_list(devices);
	CHECK(!close(context));
	CHECK(!dlclose(lib));
}

int main(void)
{
	struct sigaction before = { .sa_handler = ignored }, after = { .sa_handler = tick, .sa_flags = SA_ONSTACK }, got;
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	stack_t stack = { .ss_size = SIGSTKSZ }, now;
	int i;

	CHECK(!sigaction(SIGUSR1, &before, NULL));
	use();
	CHECK(!sigaction(SIGUSR1, NULL, &got) && got.sa_handler == ignored);
	CHECK((stack.ss_sp = alternate = malloc(SIGSTKSZ)));
	CHECK(!sigaltstack(&stack, NULL));
	CHECK(!sigaction(SIGALRM, &after, NULL));
	CHECK(!setitimer(ITIMER_REAL, &every, NULL));
	for (i = 0; i < 50 || ticks < 20; i++)
		use();
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
	CHECK(!astray);
	CHECK(!sigaltstack(NULL, &now) && now.ss_sp == alternate && !(now.ss_flags & SS_DISABLE));
	return 0;
}
