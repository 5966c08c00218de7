/* SPDX-License-Identifier: Apache-2.0 */

/* Pages of posted receives and of targets of READs that the program must not touch before it has polled the completion. The
 * device has memory of the checker's meanwhile. The first access makes the pages usable, and is noted. */

#define _GNU_SOURCE
#include "load.h"
#include "guard.h"
#include "regions.h"
#include "stack.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

/* MOST bounds the mappings: protected pages split one in three, and a process has 65530. */
enum { MOST = 1024, LIBRARIES = 3, HANDLERS = 16, UNTOUCHED = 0, NOTING, TOUCHED };

struct guard {
	uintptr_t low, high; /* high is 0 of a free one; written last */
	int shared;          /* others have the same memory, so that it is not protected */
	int touched;
	struct rj_touch touch;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of changes; the handler takes none */
static struct guard guards[MOST];
static int used;                             /* guards from here on are free */
static uintptr_t lowest = UINTPTR_MAX, highest; /* of all that ever were */
static int installed;

/* next is the handler of the program, or of Go. Signal handlers may change it, and read it while it is changed. So it is never
 * written to: a handler that is set is another element. */
static struct sigaction handlers[HANDLERS] = { { .sa_handler = SIG_DFL } };
static struct sigaction *next = handlers;
static unsigned last_handler;
static struct { uintptr_t low, high; } own[LIBRARIES]; /* the code of the libraries */

EXPORT int rj_guard_on;

/* system_action is the system's sigaction(SIGSEGV), by the name that only the C library has: libramjet-check.so replaces the
 * other one, and so do libraries such as UCX's, which leave out other handlers of faults. */
static int system_action(const struct sigaction *new, struct sigaction *old)
{
	extern int __sigaction(int, const struct sigaction *, struct sigaction *);

	return __sigaction(SIGSEGV, new, old);
}

static int make_usable(const struct guard *g) { return mprotect((void *)g->low, g->high - g->low, PROT_READ | PROT_WRITE); }

/* A child has no completions to poll. */
static void in_child(void)
{
	int i;

	for (i = 0; i < used; i++)
		if (guards[i].high && !guards[i].shared)
			make_usable(&guards[i]);
	used = 0;
	pthread_mutex_init(&lock, NULL);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }

/* note_code notes where the code is of the libraries. The Go half may have any name, see load.c. */
static int note_code(struct dl_phdr_info *info, size_t size, void *n)
{
	const uintptr_t in[] = { (uintptr_t)rj_loaded->check_protect, (uintptr_t)note_code };
	int i, rdmacm = strstr(info->dlpi_name, "/librdmacm.so") != NULL, *count = n;

	(void)size;
	for (i = 0; i < info->dlpi_phnum && *count < LIBRARIES; i++) {
		uintptr_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, high = low + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
			continue;
		if (rdmacm || (in[0] >= low && in[0] < high) || (in[1] >= low && in[1] < high)) {
			own[*count].low = low;
			own[(*count)++].high = high;
		}
	}
	return 0;
}

static int ours(uintptr_t pc)
{
	int i;

	for (i = 0; i < LIBRARIES; i++)
		if (pc >= own[i].low && pc < own[i].high)
			return 1;
	return rj_inside;
}

struct walk {
	struct rj_touch *touch;
	uintptr_t from;
};

static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *to)
{
	struct walk *w = to;
	uintptr_t pc = _Unwind_GetIP(c);

	if (!pc)
		return _URC_END_OF_STACK;
	if (pc == w->from)
		w->touch->n = 0;
	if (w->touch->n >= 0 && w->touch->n < RJ_FRAMES)
		w->touch->pcs[w->touch->n++] = pc + (pc == w->from); /* as if it were a return address */
	return w->touch->n == RJ_FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* little reports whether this runs on a signal stack that has no room to unwind. */
static int little(const ucontext_t *c)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = (uintptr_t)c->uc_stack.ss_sp;

	return !(c->uc_stack.ss_flags & SS_DISABLE) && here >= low && here < low + c->uc_stack.ss_size && here - low < 16384;
}

static void note(struct guard *g, uintptr_t addr, uintptr_t pc, const ucontext_t *c)
{
	struct walk w = { &g->touch, pc };
	struct timespec now;
	int none = UNTOUCHED;

	if (!__atomic_compare_exchange_n(&g->touched, &none, NOTING, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	g->touch.at = addr;
	g->touch.when = now.tv_sec * 1000000000LL + now.tv_nsec;
	g->touch.how = 0;
#ifdef __x86_64__
	g->touch.how = c->uc_mcontext.gregs[REG_ERR] & 2 ? RJ_WRITTEN : RJ_READ;
#endif
	g->touch.n = -1;
	if (!little(c))
		_Unwind_Backtrace(frame, &w);
	if (g->touch.n <= 0) {
		g->touch.pcs[0] = pc + 1;
		g->touch.n = 1;
	}
	__atomic_store_n(&g->touched, TOUCHED, __ATOMIC_RELEASE);
}

/* pass gives a signal its effect without this handler. */
static void pass(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *c = context;
	struct sigaction *set = __atomic_load_n(&next, __ATOMIC_ACQUIRE), to = *set;
	sigset_t mask, old;

	/* Go sets SIG_DFL with SA_SIGINFO. */
	if (to.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (to.sa_handler == SIG_DFL || to.sa_handler == SIG_IGN) {
		to.sa_handler = SIG_DFL; /* the kernel does not ignore faults */
		system_action(&to, NULL);
		if (info->si_code <= 0)
			raise(sig);
		return; /* and it happens again */
	}
	if (to.sa_flags & SA_RESETHAND) /* to SIG_DFL */
		__atomic_compare_exchange_n(&next, &set, handlers, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	sigorset(&mask, &c->uc_sigmask, &to.sa_mask);
	if (!(to.sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_SETMASK, &mask, &old);
	if (to.sa_flags & SA_SIGINFO)
		to.sa_sigaction(sig, info, context);
	else
		to.sa_handler(sig);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void handler(int sig, siginfo_t *info, void *context)
{
	static __thread uintptr_t last __attribute__((tls_model("initial-exec")));
	uintptr_t at = (uintptr_t)info->si_addr, pc = 0;
	int i, err = errno;

#if defined(__x86_64__)
	pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	pc = ((ucontext_t *)context)->uc_mcontext.pc;
#endif
	if (info->si_code == SEGV_ACCERR && at >= lowest && at < highest) {
		for (i = 0; i < __atomic_load_n(&used, __ATOMIC_ACQUIRE); i++) {
			struct guard *g = &guards[i];

			if (at >= __atomic_load_n(&g->high, __ATOMIC_ACQUIRE) || at < g->low || g->shared)
				continue;
			if (!ours(pc))
				note(g, at, pc, context);
			if (make_usable(g))
				break;
			last = 0;
			errno = err;
			return;
		}
		if (last != at) { /* it was protected as the access began, and is no more */
			last = at;
			errno = err;
			return;
		}
	}
	pass(sig, info, context);
	errno = err;
}

/* replace_handler sets the next handler, and returns the one before. The first element stays SIG_DFL. */
static const struct sigaction *replace_handler(const struct sigaction *new)
{
	struct sigaction *to = &handlers[1 + __atomic_fetch_add(&last_handler, 1, __ATOMIC_RELAXED) % (HANDLERS - 1)];

	*to = *new;
	return __atomic_exchange_n(&next, to, __ATOMIC_ACQ_REL);
}

/* rj_guard_action takes no lock: programs call sigaction in signal handlers, too. */
EXPORT int rj_guard_action(const struct sigaction *new, struct sigaction *old)
{
	struct sigaction wanted;
	const struct sigaction *was;

	if (!__atomic_load_n(&installed, __ATOMIC_ACQUIRE))
		return -1;
	if (new)
		wanted = *new; /* old may be the same */
	was = new ? replace_handler(&wanted) : __atomic_load_n(&next, __ATOMIC_ACQUIRE);
	if (old)
		*old = *was;
	return 0;
}

/* install puts the handler before the present one. */
static void install(void)
{
	struct sigaction mine = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART }, was;
	int n = 0;

	dl_iterate_phdr(note_code, &n);
	sigfillset(&mine.sa_mask);
	system_action(NULL, &was);
	replace_handler(&was);
	__atomic_store_n(&installed, !system_action(&mine, NULL), __ATOMIC_RELEASE);
}

/* protect returns the number of a guard, or 0: the memory is not protected. */
static int protect(uintptr_t low, uintptr_t high)
{
	struct guard *g;
	int i, shared = 0;

	if (rj_on_stack(low, high))
		return 0;
	pthread_mutex_lock(&lock);
	if (!installed)
		install();
	for (i = 0; i < used; i++)
		if (guards[i].high > low && guards[i].low < high) {
			shared = 1;
			if (!guards[i].shared)
				make_usable(&guards[i]);
			guards[i].shared = 1;
		}
	for (i = 0; i < used && guards[i].high; i++)
		;
	if (!installed || i == MOST) {
		pthread_mutex_unlock(&lock);
		return 0;
	}
	g = &guards[i];
	g->low = low;
	g->shared = shared;
	g->touched = UNTOUCHED;
	lowest = low < lowest ? low : lowest;
	highest = high > highest ? high : highest;
	__atomic_store_n(&g->high, high, __ATOMIC_RELEASE);
	if (i == used)
		__atomic_store_n(&used, i + 1, __ATOMIC_RELEASE);
	if (!shared && mprotect((void *)low, high - low, PROT_NONE))
		g->shared = 1; /* such as huge pages */
	pthread_mutex_unlock(&lock);
	return i + 1;
}

/* release makes memory usable. It returns 1 if the program has touched it. */
static int release(int n, struct rj_touch *touch)
{
	struct guard *g = &guards[n - 1];
	int touched;

	pthread_mutex_lock(&lock);
	if (g->high && !g->shared)
		make_usable(g);
	g->high = 0;
	while (used && !guards[used - 1].high)
		used--;
	while ((touched = __atomic_load_n(&g->touched, __ATOMIC_ACQUIRE)) == NOTING)
		;
	if (touched)
		*touch = g->touch;
	pthread_mutex_unlock(&lock);
	return touched == TOUCHED;
}

EXPORT void rj_guard_forget(const void *memory, size_t length)
{
	uintptr_t low = (uintptr_t)memory, high = low + length;
	int i;

	if (!__atomic_load_n(&used, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	for (i = 0; i < used; i++)
		if (guards[i].high > low && guards[i].low < high && !guards[i].shared) {
			make_usable(&guards[i]);
			guards[i].shared = 1; /* with the next owner of the memory */
		}
	pthread_mutex_unlock(&lock);
}

/* rj_guard_asked reports whether the environment asks for protected pages. */
EXPORT int rj_guard_asked(void)
{
	const char *text = rj_check_on ? secure_getenv("RAMJET_CHECK") : NULL, word[] = "protect";
	size_t n = sizeof word - 1;

	for (; text; text = (text = strpbrk(text, " \t")) ? text + 1 : NULL)
		if (!strncmp(text, word, n) && (!text[n] || text[n] == ' ' || text[n] == '\t'))
			return 1;
	return 0;
}

static void start(void)
{
	if (!rj_guard_on) {
		if (rj_guard_asked())
			fprintf(stderr, "ramjet: no pages are protected, as libramjet-check.so is not preloaded: start the program by "
				"ramjet run --check=protect, or with LD_PRELOAD\n");
		return;
	}
	pthread_atfork(before_fork, in_parent, in_child);
	INSIDE(rj_loaded->check_protect(protect, release));
}

void rj_guard_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start);
}
