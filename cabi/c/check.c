/* SPDX-License-Identifier: Apache-2.0 */

/* libramjet-check.so: with LD_PRELOAD, the checker sees the memory that a program frees and unmaps, but not what the libraries
 * free, and keeps its handler of SIGSEGV where it protects pages. */

#define _GNU_SOURCE
#include "load.h"
#include "guard.h"
#include "regions.h"
#include "stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* NEXT is the function that would be called without this library. Looking it up may free memory, too. */
#define NEXT(name) ({ static __typeof__(&name) f_; if (!f_) f_ = (__typeof__(f_))dlsym(RTLD_NEXT, #name); f_; })

extern void __libc_free(void *p);

__attribute__((constructor)) static void at_start(void)
{
	rj_guard_on = rj_guard_asked();
}

static int overlaps(const void *memory, size_t length)
{
	return (uintptr_t)memory < rj_regions_high && (uintptr_t)memory + length > rj_regions_low;
}

/* usable returns the size of memory that may have regions in it, 0 of other memory. */
static size_t usable(void *p)
{
	return __builtin_expect(p && (uintptr_t)p < rj_regions_high, 0) ? malloc_usable_size(p) : 0;
}

EXPORT void free(void *p)
{
	static __thread int looking;
	size_t size = usable(p);
	void (*next)(void *);

	if (size && overlaps(p, size)) {
		rj_guard_forget(p, size);
		rj_freed(p, size, "free");
	}
	if (looking) {
		__libc_free(p);
		return;
	}
	looking = 1;
	next = NEXT(free);
	looking = 0;
	next(p);
}

EXPORT void *realloc(void *p, size_t size)
{
	size_t was = usable(p);
	void *now;

	if (was && overlaps(p, was))
		rj_guard_forget(p, was);
	now = NEXT(realloc)(p, size);
	if (was && (now ? now != p : !size) && overlaps(p, was))
		rj_freed(p, was, "realloc");
	else if (was && now == p && size < was && overlaps((char *)p + size, was - size))
		rj_freed((char *)p + size, was - size, "realloc");
	return now;
}

EXPORT int munmap(void *addr, size_t length)
{
	if (overlaps(addr, length)) {
		rj_guard_forget(addr, length);
		rj_freed(addr, length, "munmap");
	}
	return NEXT(munmap)(addr, length);
}

EXPORT int madvise(void *addr, size_t length, int advice)
{
	if ((advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE) && overlaps(addr, length))
		rj_freed(addr, length, "madvise");
	return NEXT(madvise)(addr, length, advice);
}

EXPORT void *mremap(void *addr, size_t length, size_t size, int flags, ...)
{
	void *to = NULL, *now;
	va_list args;

	va_start(args, flags);
	if (flags & MREMAP_FIXED)
		to = va_arg(args, void *);
	va_end(args);
	if (overlaps(addr, length))
		rj_guard_forget(addr, length);
	now = NEXT(mremap)(addr, length, size, flags, to);
	if (now != MAP_FAILED && now != addr && overlaps(addr, length))
		rj_freed(addr, length, "mremap");
	else if (now == addr && size < length && overlaps((char *)addr + size, length - size))
		rj_freed((char *)addr + size, length - size, "mremap");
	return now;
}

struct start {
	void *(*run)(void *);
	void *arg;
};

static void *run_ours(void *p)
{
	struct start s = *(struct start *)p;

	rj_be_ours();
	free(p);
	return s.run(s.arg);
}

/* Threads that ours start are ours, too: those of Go. A thread of Go frees memory before it can run Go code, and the memory
 * may be of a region that has outlived its own. If the thread called the checker then, Go would take it for one of the
 * program's, which waits while the garbage collector has stopped the others. The collector waits for the thread to begin. */
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	struct start *s;
	int err;

	if (!rj_ours())
		return NEXT(pthread_create)(thread, attr, run, arg);
	if (!(s = malloc(sizeof *s)))
		return EAGAIN;
	s->run = run;
	s->arg = arg;
	if ((err = NEXT(pthread_create)(thread, attr, run_ours, s)))
		free(s);
	return err;
}

/* faults returns a mask without SIGSEGV: the system ends a thread that touches protected memory with that blocked. */
static const sigset_t *faults(int how, const sigset_t *set, sigset_t *without)
{
	if (!set || !rj_guard_on || how == SIG_UNBLOCK)
		return set;
	*without = *set;
	sigdelset(without, SIGSEGV);
	return without;
}

EXPORT int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	struct sigaction wanted;

	if (sig == SIGSEGV && rj_guard_on && !rj_guard_action(new, old))
		return 0;
	if (new && rj_guard_on) {
		wanted = *new;
		wanted.sa_mask = *faults(SIG_SETMASK, &new->sa_mask, &wanted.sa_mask);
		new = &wanted;
	}
	return NEXT(sigaction)(sig, new, old);
}

EXPORT sighandler_t signal(int sig, sighandler_t f)
{
	struct sigaction new = { .sa_handler = f, .sa_flags = SA_RESTART }, old;

	if (sig != SIGSEGV || !rj_guard_on)
		return NEXT(signal)(sig, f);
	return sigaction(sig, &new, &old) ? SIG_ERR : old.sa_handler;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t without;

	return NEXT(pthread_sigmask)(how, faults(how, set, &without), old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t without;

	return NEXT(sigprocmask)(how, faults(how, set, &without), old);
}
