/* SPDX-License-Identifier: Apache-2.0 */

/* Loads libramjet.so, the Go half. It comes with a runtime that has threads, so it is loaded
 * when a program first asks for devices and not before: a program that forks first, as
 * daemons do, has it in the child. A child of a process that has loaded it already gets a
 * copy of its own, whose runtime starts anew; the parent's objects mean nothing to it. */

#define _GNU_SOURCE
#include "ramjet.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

EXPORT const struct rj_calls *rj_loaded;

static struct rj_calls table;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static int loaded_before; /* by a process that this one was forked from */

static void in_child(void)
{
	loaded_before |= rj_loaded != NULL;
	rj_loaded = NULL;
	pthread_mutex_init(&loading, NULL);
}

/* path finds the Go library beside the one that this function is in. */
static int path(char *out, size_t room)
{
	Dl_info info;
	const char *slash;

	if (!dladdr((void *)rj_load, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return -1;
	return snprintf(out, room, "%.*s/libramjet.so", (int)(slash - info.dli_fname), info.dli_fname) < (int)room ? 0 : -1;
}

/* copy puts a file into memory under a name of its own, so that it is loaded once more. */
static int copy(char *name, size_t room)
{
	struct stat st;
	off_t at = 0;
	int from = open(name, O_RDONLY | O_CLOEXEC), to = memfd_create("libramjet.so", MFD_CLOEXEC);

	if (from < 0 || to < 0 || fstat(from, &st))
		return -1;
	while (at < st.st_size)
		if (sendfile(to, from, &at, st.st_size - at) <= 0)
			return -1;
	close(from);
	snprintf(name, room, "/proc/self/fd/%d", to); /* stays open: debuggers look there */
	return 0;
}

union name {
	struct sockaddr any;
	struct sockaddr_in in; /* whose port is where that of IPv6 is */
	struct sockaddr_un un;
	struct sockaddr_storage room;
};

/* ours says whether a socket is one of RoCEv2's port, or of the processes that share an address. */
static int ours(int fd, const union name *at, socklen_t size)
{
	static const char door[8] = "\0ramjet/";
	int type = 0;
	socklen_t n = sizeof type;

	switch (at->any.sa_family) {
	case AF_INET: case AF_INET6:
		return at->in.sin_port == htons(4791) && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) && type == SOCK_DGRAM;
	case AF_UNIX:
		return size > offsetof(struct sockaddr_un, sun_path) + sizeof door && !memcmp(at->un.sun_path, door, sizeof door);
	}
	return 0;
}

/* close_inherited closes what was the parent's sockets. Nobody serves them here, and while they
 * are open nobody else can have the addresses of a parent that has ended. */
static void close_inherited(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		int fd = e->d_name[0] == '.' ? -1 : atoi(e->d_name);
		union name here, there;
		socklen_t nhere = sizeof here, nthere = sizeof there;

		if ((!getsockname(fd, &here.any, &nhere) && ours(fd, &here, nhere)) ||
		    (!getpeername(fd, &there.any, &nthere) && there.any.sa_family == AF_UNIX && ours(fd, &there, nthere)))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

static int load(void)
{
	char name[PATH_MAX];
	struct sigaction urgent;
	struct rlimit files;
	sigset_t block, old;
	void *lib;

	if (path(name, sizeof name) || (loaded_before && copy(name, sizeof name)))
		return -1;
	if (loaded_before)
		close_inherited();
	/* The program's signals are for its own threads, not for Go's, whose stacks are small.
	 * What is blocked while the runtime starts is blocked in all of its threads, but for the
	 * faults, which it needs itself. */
	sigfillset(&block);
	pthread_sigmask(SIG_SETMASK, &block, &old);
	sigaction(SIGURG, NULL, &urgent);
	getrlimit(RLIMIT_NOFILE, &files);
	lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!lib) {
		fprintf(stderr, "ramjet: %s\n", dlerror());
		return -1;
	}
#define CALL(result, name, parameters) if (!(table.name = (result(*) parameters)dlsym(lib, "rj_" #name))) return -1;
#include "calls.h"
#include "cmcalls.h"
#include "rscalls.h"
#undef CALL
	table.clock(0); /* returns when the runtime has started, and done what is undone here */
	sigaction(SIGURG, &urgent, NULL); /* its handler is for what build.sh turns off, and passes nothing on */
	setrlimit(RLIMIT_NOFILE, &files); /* it raises the limit, and select is good for 1024 only */
	return 0;
}

static void *call(void *f)
{
	((void (*)(const struct rj_calls *))f)(rj_loaded);
	return NULL;
}

/* rj_apart has a thread of its own call f: exit may be called in the middle of anything, also by
 * the handler of a signal that came while its thread was in Go. What was going on may hold what
 * f needs, so that it is not waited for without end. */
EXPORT void rj_apart(void (*f)(const struct rj_calls *), int seconds)
{
	sigset_t block, old;
	struct timespec until;
	pthread_t thread;
	int err;

	if (!rj_loaded)
		return;
	sigfillset(&block);
	pthread_sigmask(SIG_SETMASK, &block, &old);
	err = pthread_create(&thread, NULL, call, (void *)f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	pthread_timedjoin_np(thread, NULL, &until);
}

static void say_goodbye(const struct rj_calls *calls) { calls->leave(); }

/* When the program exits, Go says what peers are owed. */
__attribute__((destructor)) static void leave(void) { rj_apart(say_goodbye, 1); }

EXPORT const struct rj_calls *rj_load(void)
{
	static int registered;
	int err = 0;

	pthread_mutex_lock(&loading);
	if (!registered) {
		pthread_atfork(NULL, NULL, in_child);
		registered = 1;
	}
	if (!rj_loaded) {
		err = load();
		if (!err)
			__atomic_store_n(&rj_loaded, &table, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&loading);
	if (err) {
		errno = ENOSYS;
		return NULL;
	}
	return &table;
}
