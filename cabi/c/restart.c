/* SPDX-License-Identifier: Apache-2.0 */

/* Part of libramjet-sysfs.so: a program whose environment has RAMJET_CHECK starts again with libramjet-check.so, if
 * `ramjet run` has not preloaded it. Containers have libramjet-sysfs.so whether they want the checker or not. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define CHECK "libramjet-check.so"

__attribute__((constructor)) static void restart(int argc, char **argv)
{
	const char *options = secure_getenv("RAMJET_CHECK"), *preload = getenv("LD_PRELOAD");
	char program[PATH_MAX], library[PATH_MAX], *list;
	const char *slash;
	ssize_t n;
	Dl_info self;

	(void)argc;
	if (!options || !*options || !strcmp(options, "0") || !preload || strstr(preload, CHECK))
		return;
	if (!getauxval(AT_BASE)) /* the program that runs is the dynamic linker, and its arguments are gone */
		return;
	if (!dladdr((void *)restart, &self) || !(slash = strrchr(self.dli_fname, '/')))
		return;
	n = snprintf(library, sizeof library, "%.*s" CHECK, (int)(slash + 1 - self.dli_fname), self.dli_fname);
	if (n >= (ssize_t)sizeof library || access(library, R_OK))
		return;
	n = readlink("/proc/self/exe", program, sizeof program - 1);
	if (n <= 0 || asprintf(&list, "%s:%s", library, preload) < 0)
		return;
	program[n] = 0;
	setenv("LD_PRELOAD", list, 1);
	free(list);
	execv(program, argv); /* otherwise the program goes on, and the checker does not see memory that it frees */
}
