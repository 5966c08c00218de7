/* SPDX-License-Identifier: Apache-2.0 */

/* The memory of regions, for the checker: memory that is freed or unmapped is looked up here. */

#define _GNU_SOURCE
#include "load.h"
#include "regions.h"
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct region {
	uintptr_t start, end;
	uintptr_t most;     /* the greatest end of the regions up to this one */
	uint64_t handle;
	const void *thread; /* whose stack it is on; NULL: it is not on a stack, or was reported */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region *regions; /* by start */
static size_t count, room, on_stacks;

EXPORT uintptr_t rj_regions_low = UINTPTR_MAX, rj_regions_high;

static __thread int inside; /* this thread is in this file, or is Go's: what is freed meanwhile is the libraries' */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }

/* A child cannot use its parent's objects, see load.c. */
static void in_child(void)
{
	count = on_stacks = 0;
	rj_regions_low = UINTPTR_MAX;
	rj_regions_high = 0;
	pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void at_start(void)
{
	if (rj_check_on)
		pthread_atfork(before_fork, in_parent, in_child);
}

/* settle brings the values derived from the regions up to date, from one region on. */
static void settle(size_t i)
{
	for (; i < count; i++)
		regions[i].most = i && regions[i - 1].most > regions[i].end ? regions[i - 1].most : regions[i].end;
	rj_regions_low = count ? regions[0].start : UINTPTR_MAX;
	rj_regions_high = count ? regions[count - 1].most : 0;
}

/* find returns the first region that starts at or behind an address. */
static size_t find(uintptr_t at)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (regions[middle].start < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The bounds of this thread's stack. */
static __thread uintptr_t stack_low, stack_high;

static int on_stack(uintptr_t at)
{
	pthread_attr_t attr;
	void *low;
	size_t size;

	if (!stack_high && !pthread_getattr_np(pthread_self(), &attr)) {
		if (!pthread_attr_getstack(&attr, &low, &size)) {
			stack_low = (uintptr_t)low;
			stack_high = stack_low + size;
		}
		pthread_attr_destroy(&attr);
	}
	return at >= stack_low && at < stack_high;
}

void rj_region_add(void *addr, size_t length, uint64_t handle)
{
	struct region new = { .start = (uintptr_t)addr, .end = (uintptr_t)addr + length, .handle = handle };
	struct region *bigger;
	size_t i;

	if (!length)
		return;
	inside++;
	if (on_stack(new.start) && on_stack((uintptr_t)__builtin_frame_address(0)) && new.start > (uintptr_t)__builtin_frame_address(0))
		new.thread = &inside;
	pthread_mutex_lock(&lock);
	if (count == room && (bigger = realloc(regions, (room ? 2 * room : 64) * sizeof *regions))) {
		regions = bigger;
		room = room ? 2 * room : 64;
	}
	if (count < room) {
		i = find(new.start);
		memmove(&regions[i + 1], &regions[i], (count - i) * sizeof *regions);
		regions[i] = new;
		count++;
		on_stacks += new.thread != NULL;
		settle(i);
	}
	pthread_mutex_unlock(&lock);
	inside--;
}

void rj_region_remove(uint64_t handle)
{
	size_t i;

	inside++;
	pthread_mutex_lock(&lock);
	for (i = 0; i < count && regions[i].handle != handle; i++)
		;
	if (i < count) {
		on_stacks -= regions[i].thread != NULL;
		memmove(&regions[i], &regions[i + 1], (--count - i) * sizeof *regions);
		settle(i);
	}
	pthread_mutex_unlock(&lock);
	inside--;
}

int rj_on_stack(uintptr_t start, uintptr_t end)
{
	int found = 0;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = find(end); i > 0 && !found && regions[i - 1].most > start; i--)
		found = regions[i - 1].end > start && regions[i - 1].thread;
	pthread_mutex_unlock(&lock);
	return found;
}

/* MOST is how many regions a call reports that frees the memory of more. */
#define MOST 8

/* report tells the checker of regions whose memory is gone. */
static void report(const struct region *gone, int n, uintptr_t start, uintptr_t end, const char *how)
{
	int i;

	for (i = 0; i < n; i++)
		if (rj_loaded && !rj_inside)
			INSIDE(rj_loaded->check_freed(gone[i].handle, start, end, how));
}

EXPORT int rj_ours(void) { return inside || rj_inside; }

EXPORT void rj_be_ours(void) { inside++; }

EXPORT void rj_freed(const void *memory, size_t length, const char *how)
{
	uintptr_t start = (uintptr_t)memory, end = start + length;
	struct region gone[MOST];
	int n = 0, err = errno;
	size_t i;

	if (rj_ours())
		return;
	inside++;
	pthread_mutex_lock(&lock);
	for (i = find(end); i > 0 && regions[i - 1].most > start && n < MOST; i--)
		if (regions[i - 1].end > start)
			gone[n++] = regions[i - 1];
	pthread_mutex_unlock(&lock);
	if (n) {
		rj_capture();
		report(gone, n, start, end, how);
	}
	inside--;
	errno = err;
}

void rj_returned(uintptr_t frame)
{
	struct region gone[MOST];
	size_t i;
	int n = 0;

	if (!__atomic_load_n(&on_stacks, __ATOMIC_RELAXED) || !stack_high || !on_stack(frame))
		return;
	inside++;
	pthread_mutex_lock(&lock);
	for (i = 0; i < count && n < MOST; i++)
		if (regions[i].thread == &inside && regions[i].start < frame) {
			gone[n++] = regions[i];
			regions[i].thread = NULL;
			on_stacks--;
		}
	pthread_mutex_unlock(&lock);
	for (i = 0; i < (size_t)n; i++)
		report(&gone[i], 1, gone[i].start, gone[i].end, "its function returned");
	inside--;
}
