/* SPDX-License-Identifier: Apache-2.0 */

/* The Go half, which load.c loads. */
#ifndef RAMJET_LOAD_H
#define RAMJET_LOAD_H

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "cmobjects.h"
#include "cqwait.h"
#include "guard.h"
#include "rswatch.h"
#include "umadobjects.h"

#define EXPORT __attribute__((visibility("default")))

struct rj_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#include "calls.h"
#include "cmcalls.h"
#include "rscalls.h"
#include "umadcalls.h"
#undef CALL
};

extern const struct rj_calls *rj_loaded; /* NULL: not loaded in this process */
const struct rj_calls *rj_load(void);
void rj_apart(void (*f)(const struct rj_calls *), int seconds); /* for calls at exit */

/* Nonzero while this thread is in the Go half, or holds a lock that is needed there. Neither can be entered again by a
 * handler of a signal that comes meanwhile: its calls are EDEADLK. */
extern __thread volatile sig_atomic_t rj_inside __attribute__((tls_model("initial-exec")));

/* GO makes a call into the Go half. INSIDE is for calls without a result, and for code that holds a lock. */
#define GO(call, refused) ({ __typeof__(call) r__ = (refused); if (!rj_inside) INSIDE(r__ = (call)); r__; })
#define INSIDE(statement) do { rj_inside = 1; statement; rj_inside = 0; } while (0)

/* rj returns the Go library's functions, loaded when first needed. NULL with errno set if it
 * cannot be. */
static inline const struct rj_calls *rj(void)
{
	const struct rj_calls *c = __atomic_load_n(&rj_loaded, __ATOMIC_ACQUIRE);
	return __builtin_expect(c != NULL, 1) ? c : rj_load();
}

#endif
