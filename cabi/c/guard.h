/* SPDX-License-Identifier: Apache-2.0 */

/* Pages that the program must not touch for a while, see guard.c. */
#ifndef RAMJET_GUARD_H
#define RAMJET_GUARD_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "stack.h"

/* rj_touch is an access of the program to protected memory. */
struct rj_touch {
	uintptr_t at;
	int64_t when; /* nanoseconds since 1970 */
	enum { RJ_USED, RJ_READ, RJ_WRITTEN } how;
	int n; /* of pcs: where it was, as return addresses, the innermost first */
	uintptr_t pcs[RJ_FRAMES];
};

/* The checker protects pages. It is set before main runs, and only where the program's calls of sigaction are seen. */
extern int rj_guard_on;
int rj_guard_asked(void);

/* rj_guard_forget makes memory usable that the program gives up. */
void rj_guard_forget(const void *memory, size_t length);

/* rj_guard_action is sigaction(SIGSEGV): the handler of guard.c stays, and calls the program's for other faults. */
int rj_guard_action(const struct sigaction *new, struct sigaction *old);

/* rj_guard_start tells the Go half how to protect pages. It is called with it loaded. */
void rj_guard_start(void);

#endif
