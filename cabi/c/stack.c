/* SPDX-License-Identifier: Apache-2.0 */

/* The checker's view of a C program: its stacks, and the memory of objects that it has destroyed. */

#define _GNU_SOURCE
#include "load.h"
#include "stack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

EXPORT int rj_check_on;

/* Programs with more rights than their user are not checked. */
__attribute__((constructor)) static void at_start(void)
{
	const char *options = secure_getenv("RAMJET_CHECK");

	rj_check_on = options && *options && strcmp(options, "0");
}

enum { OURS = 2 }; /* return addresses into rj_capture and into its caller */

struct stack {
	int n;
	uintptr_t pcs[RJ_FRAMES];
	const uintptr_t *slots[RJ_FRAMES]; /* where they are in memory */
	int fixed;                         /* as slots say */
};

/* Unwinding takes microseconds, and programs call from the same places again and again. The stacks of a thread are not in
 * its static memory: programs that load the libraries late have little room for that. */
struct stacks {
	struct stack *now;
	struct stack known[8];
};

static __thread struct stacks *thread; /* NULL: it has none yet */
static pthread_key_t ended;
static int usable; /* that key */

static void free_stacks(void *all)
{
	thread = NULL;
	free(all);
}

static void make_key(void)
{
	usable = !pthread_key_create(&ended, free_stacks);
}

/* stacks returns this thread's stacks, or NULL if there is no memory. */
static struct stacks *stacks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (thread)
		return thread;
	pthread_once(&once, make_key);
	thread = usable ? calloc(1, sizeof *thread) : NULL;
	if (thread)
		pthread_setspecific(ended, thread);
	return thread;
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *to)
{
	struct stack *s = to;
	const uintptr_t *slot = (const uintptr_t *)_Unwind_GetCFA(c) - 1;
	uintptr_t pc = _Unwind_GetIP(c);

	if (!pc)
		return _URC_END_OF_STACK;
#ifdef __x86_64__ /* a call pushes its return address */
	if (*slot != pc)
		s->fixed = 0;
#else
	s->fixed = 0;
#endif
	s->pcs[s->n] = pc;
	s->slots[s->n] = slot;
	return ++s->n == RJ_FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* same reports whether a stack is the present one. Its innermost return address comes first: if that is where it was,
 * so is the memory of the others. */
static int same(const struct stack *s, const uintptr_t *innermost)
{
	int i;

	if (!s->n || !s->fixed || s->slots[1] != innermost)
		return 0;
	for (i = 1; i < s->n; i++)
		if (*s->slots[i] != s->pcs[i])
			return 0;
	return 1;
}

EXPORT __attribute__((noinline)) void rj_capture(void)
{
	const uintptr_t *innermost = (const uintptr_t *)__builtin_dwarf_cfa() - 1;
	struct stacks *all = stacks();
	struct stack *s;

	if (!all)
		return;
	s = &all->known[(((uintptr_t)innermost >> 4) ^ ((uintptr_t)__builtin_return_address(0) >> 2)) % 8];
	all->now = s;
	if (same(s, innermost))
		return;
	s->n = 0;
	s->fixed = 1;
	_Unwind_Backtrace(frame, s);
}

EXPORT int rj_stack(uintptr_t *pcs, int room)
{
	const struct stack *s = thread ? thread->now : NULL;
	int n = s ? s->n - OURS : 0;

	if (n > room)
		n = room;
	if (n <= 0)
		return 0;
	memcpy(pcs, s->pcs + OURS, n * sizeof *pcs);
	return n;
}

EXPORT void rj_discard(void *object)
{
	static void *gone[4096];
	static unsigned n;

	if (rj_check_on && object)
		object = __atomic_exchange_n(&gone[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) % 4096], object, __ATOMIC_ACQ_REL);
	free(object);
}
