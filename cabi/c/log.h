/* SPDX-License-Identifier: Apache-2.0 */

/* The log of calls: its begin and end, which a wrapper of each function calls. */
#ifndef RAMJET_LOG_H
#define RAMJET_LOG_H

#include <stdint.h>

/* A call that is being logged. */
struct rj_logging {
	uint64_t call;   /* 0: it is not logged */
	uint64_t result; /* of a call that is refused */
	int checked, refused;
};

extern int rj_log_on; /* the environment asks for a log, or for the checker */
void rj_log_enter(struct rj_logging *l, const char *name, const uint64_t *args, int n);
void rj_log_leave(struct rj_logging *l, uint64_t result);
uint64_t rj_log_refused(struct rj_logging *l); /* sets errno, and returns the result */

#define RJ_ARG(x) (uint64_t)(uintptr_t)(x)
#define RJ_ARGS1(a) RJ_ARG(a)
#define RJ_ARGS2(a, ...) RJ_ARG(a), RJ_ARGS1(__VA_ARGS__)
#define RJ_ARGS3(a, ...) RJ_ARG(a), RJ_ARGS2(__VA_ARGS__)
#define RJ_ARGS4(a, ...) RJ_ARG(a), RJ_ARGS3(__VA_ARGS__)
#define RJ_ARGS5(a, ...) RJ_ARG(a), RJ_ARGS4(__VA_ARGS__)
#define RJ_ARGS6(a, ...) RJ_ARG(a), RJ_ARGS5(__VA_ARGS__)
#define RJ_SIXTH(a, b, c, d, e, f, n, ...) n
#define RJ_ARGS(...) RJ_SIXTH(__VA_ARGS__, RJ_ARGS6, RJ_ARGS5, RJ_ARGS4, RJ_ARGS3, RJ_ARGS2, RJ_ARGS1)(__VA_ARGS__)

/* RJ_ENTER begins the log of a call of its name and arguments, and RJ_LEAVE ends it. */
#define RJ_ENTER(name, args) struct rj_logging l_; const uint64_t args_[] = { RJ_ARGS args }; \
	rj_log_enter(&l_, #name, args_, sizeof args_ / sizeof *args_)
#define RJ_LEAVE(result) rj_log_leave(&l_, RJ_ARG(result))

/* RJ_CALL makes a call that has begun, unless the checker refuses it: an object of it is gone. */
#define RJ_CALL(result, call) (__builtin_expect(l_.refused, 0) ? (result)(intptr_t)rj_log_refused(&l_) : (call))

/* The wrappers of files log.c, cmlog.c and rslog.c. */
#define LOGGED(result, name, parameters, args)              \
	extern result rj_do_##name parameters;              \
	EXPORT result (name) parameters                     \
	{                                                   \
		if (__builtin_expect(!rj_log_on, 1))        \
			return rj_do_##name args;           \
		RJ_ENTER(name, args);                       \
		result r_ = RJ_CALL(result, rj_do_##name args); \
		RJ_LEAVE(r_);                               \
		return r_;                                  \
	}
#define LOGGED_VOID(name, parameters, args)                 \
	extern void rj_do_##name parameters;                \
	EXPORT void (name) parameters                       \
	{                                                   \
		if (__builtin_expect(!rj_log_on, 1)) {      \
			rj_do_##name args;                  \
			return;                             \
		}                                           \
		RJ_ENTER(name, args);                       \
		if (!l_.refused)                            \
			rj_do_##name args;                  \
		RJ_LEAVE(0);                                \
	}
#define LOGGED_NONE(result, name)                           \
	extern result rj_do_##name(void);                   \
	EXPORT result (name)(void)                          \
	{                                                   \
		struct rj_logging l_;                       \
		if (__builtin_expect(!rj_log_on, 1))        \
			return rj_do_##name();              \
		rj_log_enter(&l_, #name, NULL, 0);          \
		result r_ = RJ_CALL(result, rj_do_##name()); \
		RJ_LEAVE(r_);                               \
		return r_;                                  \
	}

#endif
