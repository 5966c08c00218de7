/* SPDX-License-Identifier: Apache-2.0 */

/* Loads libramjet.so, the Go half. It comes with a runtime that has threads, so it is loaded
 * when a program first asks for devices and not before: a program that forks first, as
 * daemons do, has it in the child. A child of a process that has loaded it already gets a
 * copy of its own, whose runtime starts anew; the parent's objects mean nothing to it. */

#define _GNU_SOURCE
#include "load.h"
#include "stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

EXPORT const struct rj_calls *rj_loaded;
EXPORT __thread volatile sig_atomic_t rj_inside;

static struct rj_calls table;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static int loaded_before; /* by an ancestor, before it forked */

/* path returns the path of the Go library, in the directory of this one. */
static int path(char *out, size_t room)
{
	Dl_info info;
	const char *slash;

	if (!dladdr((void *)rj_load, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return -1;
	return snprintf(out, room, "%.*s/libramjet.so", (int)(slash - info.dli_fname), info.dli_fname) < (int)room ? 0 : -1;
}

/* copy copies a file into memory. Under its new name it is loaded again. */
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

/* mark is the receive timeout of Ramjet's sockets, see internal/system/forkmark. */
enum { mark = 1470911 };

/* inherited reports whether a descriptor is a socket of Ramjet, or holds a place among the
 * processes that share an address. */
static int inherited(const char *fd)
{
	static const char board[] = "/memfd:ramjet-address";
	char path[32], to[64];
	struct timeval t;
	socklen_t n = sizeof t;

	if (!getsockopt(atoi(fd), SOL_SOCKET, SO_RCVTIMEO, &t, &n))
		return t.tv_sec == mark;
	snprintf(path, sizeof path, "/proc/self/fd/%s", fd);
	return readlink(path, to, sizeof to) >= (ssize_t)sizeof board - 1 && !memcmp(to, board, sizeof board - 1);
}

struct dirent64_of_kernel { /* of getdents64(2) */
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

/* close_inherited closes the parent's sockets. This process does not serve them, and while they are
 * open the addresses of a parent that has ended stay taken, and its peers do not notice its end. It
 * runs in a child of a process with threads, so it allocates nothing. */
static void close_inherited(void)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	union {
		struct dirent64_of_kernel first;
		char room[4096];
	} entries;
	long size, at;

	while (dir >= 0 && (size = syscall(SYS_getdents64, dir, &entries, sizeof entries)) > 0)
		for (at = 0; at < size;) {
			const struct dirent64_of_kernel *e = (const void *)(entries.room + at);

			if (e->name[0] != '.' && atoi(e->name) != dir && inherited(e->name))
				close(atoi(e->name));
			at += e->reclen;
		}
	if (dir >= 0)
		close(dir);
}

static void in_child(void)
{
	if (rj_loaded) {
		loaded_before = 1;
		close_inherited();
	}
	rj_loaded = NULL;
	pthread_mutex_init(&loading, NULL);
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
	/* The program's signals are for its own threads, not for Go's, whose stacks are small.
	 * Signals that are blocked while the runtime starts are blocked in all of its threads, but
	 * for the faults, which it needs itself. */
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
#include "umadcalls.h"
#undef CALL
	table.clock(0); /* returns once the runtime has made the settings that are undone here */
	sigaction(SIGURG, &urgent, NULL); /* its handler serves preemption, which build.sh turns off, and does not pass signals on */
	if (rj_check_on)
		table.check_with(rj_stack);
	setrlimit(RLIMIT_NOFILE, &files); /* the runtime raises the limit, and select only works below 1024 */
	return 0;
}

static void *call(void *f)
{
	((void (*)(const struct rj_calls *))f)(rj_loaded);
	return NULL;
}

/* rj_apart has a thread of its own call f: exit may be called in the middle of anything, also by
 * the handler of a signal that came while its thread was in Go. The interrupted code may hold a lock
 * that f needs, so f is not waited for without end. */
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

static int ends_with; /* the status that the checker wants, instead of 0 */

static void say_goodbye(const struct rj_calls *calls) { ends_with = calls->leave(); }

/* When the program exits, Go tells its peers. The checker reads the program's symbols, which takes longer. */
__attribute__((destructor)) static void leave(void)
{
	static int left;

	if (!left++)
		rj_apart(say_goodbye, rj_check_on ? 5 : 1);
}

/* A handler that is registered before main runs comes last, after all destructors. In a program that loads the library
 * itself it comes earlier. Exiting in a handler goes on with the handlers that are left. */
static void at_exit(int status, void *unused)
{
	(void)unused;
	leave();
	if (!status && ends_with)
		exit(ends_with);
}

__attribute__((constructor)) static void at_start(void)
{
	if (rj_check_on)
		on_exit(at_exit, NULL);
}

EXPORT const struct rj_calls *rj_load(void)
{
	static int registered;
	int err = 0;

	if (rj_inside) {
		errno = EDEADLK;
		return NULL;
	}
	rj_inside = 1;
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
	rj_inside = 0;
	if (err) {
		errno = ENOSYS;
		return NULL;
	}
	return &table;
}
