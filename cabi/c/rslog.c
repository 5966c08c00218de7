/* SPDX-License-Identifier: Apache-2.0 */

/* rsockets' functions for programs, see log.c. */

#define RJ_UNNAMED
#include "rs.h"

#include <stdarg.h>

#include "rslogged.h"

EXPORT int(rfcntl)(int fd, int command, ...)
{
	va_list args;
	int value;

	va_start(args, command);
	value = va_arg(args, int);
	va_end(args);
	if (__builtin_expect(!rj_log_on, 1))
		return rj_do_rfcntl(fd, command, value);
	RJ_ENTER(rfcntl, (fd, command, value));
	int r_ = rj_do_rfcntl(fd, command, value);
	RJ_LEAVE(r_);
	return r_;
}
