/* SPDX-License-Identifier: Apache-2.0 */

/* libramjet-sysfs.so, which `ramjet run` loads before all others: programs that look for
 * RDMA devices in /sys and /dev find what `ramjet run` has written into the folder that
 * RAMJET_SYSFS names. Other paths are what they were. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* no_counters says once why a program, such as perftest with -W, does not find a counter. */
static void no_counters(const char *path)
{
	static int said;

	if ((strstr(path, "/counters/") || strstr(path, "/hw_counters/")) && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "ramjet: %s: these devices have no counters in /sys: `ramjet stat` shows what they count\n", path);
}

/* place returns where a path is to be found. */
static const char *place(const char *path, char *buf)
{
	static const char *const ours[] = { "/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad",
		"/dev/infiniband", "/sys/devices/pciffff:00" /* where cdevices puts them */ };
	const char *root;
	size_t i, n;

	if (!path || path[0] != '/' || !(root = getenv("RAMJET_SYSFS")))
		return path;
	for (i = 0; i < sizeof ours / sizeof *ours; i++) {
		n = strlen(ours[i]);
		if (strncmp(path, ours[i], n) || (path[n] && path[n] != '/'))
			continue;
		no_counters(path);
		return snprintf(buf, PATH_MAX, "%s%s", root, path) < PATH_MAX ? buf : path;
	}
	return path;
}

/* CALL replaces a function of the C library by a function that looks for its path elsewhere. */
#define CALL(type, name, parameters, ...)                                             \
	EXPORT type name parameters                                                   \
	{                                                                             \
		static type(*real) parameters;                                        \
		char buf[PATH_MAX];                                                   \
                                                                                      \
		if (!real)                                                            \
			*(void **)&real = dlsym(RTLD_NEXT, #name);                    \
		return real(__VA_ARGS__);                                             \
	}
#define PATH place(path, buf)

CALL(FILE *, fopen, (const char *path, const char *mode), PATH, mode)
CALL(FILE *, fopen64, (const char *path, const char *mode), PATH, mode)
CALL(DIR *, opendir, (const char *path), PATH)
CALL(int, access, (const char *path, int mode), PATH, mode)
CALL(int, faccessat, (int at, const char *path, int mode, int flags), at, PATH, mode, flags)
CALL(int, stat, (const char *path, struct stat *st), PATH, st)
CALL(int, stat64, (const char *path, struct stat64 *st), PATH, st)
CALL(int, lstat, (const char *path, struct stat *st), PATH, st)
CALL(int, lstat64, (const char *path, struct stat64 *st), PATH, st)
CALL(int, fstatat, (int at, const char *path, struct stat *st, int flags), at, PATH, st, flags)
CALL(int, fstatat64, (int at, const char *path, struct stat64 *st, int flags), at, PATH, st, flags)
CALL(int, statx, (int at, const char *path, int flags, unsigned mask, struct statx *st), at, PATH, flags, mask, st)
CALL(int, __xstat, (int version, const char *path, struct stat *st), version, PATH, st)
CALL(int, __xstat64, (int version, const char *path, struct stat64 *st), version, PATH, st)
CALL(int, __lxstat, (int version, const char *path, struct stat *st), version, PATH, st)
CALL(int, __lxstat64, (int version, const char *path, struct stat64 *st), version, PATH, st)
CALL(ssize_t, getxattr, (const char *path, const char *name, void *to, size_t size), PATH, name, to, size)
CALL(ssize_t, lgetxattr, (const char *path, const char *name, void *to, size_t size), PATH, name, to, size)
CALL(ssize_t, listxattr, (const char *path, char *to, size_t size), PATH, to, size)
CALL(ssize_t, llistxattr, (const char *path, char *to, size_t size), PATH, to, size)
CALL(ssize_t, readlink, (const char *path, char *to, size_t size), PATH, to, size)
CALL(char *, realpath, (const char *path, char *to), PATH, to)
CALL(char *, __realpath_chk, (const char *path, char *to, size_t size), PATH, to, size)
CALL(int, __open_2, (const char *path, int flags), PATH, flags)
CALL(int, __open64_2, (const char *path, int flags), PATH, flags)
CALL(int, __openat_2, (int at, const char *path, int flags), at, PATH, flags)
CALL(int, __openat64_2, (int at, const char *path, int flags), at, PATH, flags)

typedef int (*filter)(const struct dirent *);
typedef int (*order)(const struct dirent **, const struct dirent **);
typedef int (*filter64)(const struct dirent64 *);
typedef int (*order64)(const struct dirent64 **, const struct dirent64 **);
CALL(int, scandir, (const char *path, struct dirent ***names, filter f, order o), PATH, names, f, o)
CALL(int, scandir64, (const char *path, struct dirent64 ***names, filter64 f, order64 o), PATH, names, f, o)

/* OPEN is CALL for functions that take a mode if they make a file. */
#define OPEN(name, parameters, ...)                                                   \
	EXPORT int name parameters                                                    \
	{                                                                             \
		static int(*real) parameters;                                         \
		char buf[PATH_MAX];                                                   \
		mode_t mode = 0;                                                      \
		va_list args;                                                         \
                                                                                      \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {            \
			va_start(args, flags);                                        \
			mode = va_arg(args, mode_t);                                  \
			va_end(args);                                                 \
		}                                                                     \
		if (!real)                                                            \
			*(void **)&real = dlsym(RTLD_NEXT, #name);                    \
		return real(__VA_ARGS__, mode);                                       \
	}

OPEN(open, (const char *path, int flags, ...), PATH, flags)
OPEN(open64, (const char *path, int flags, ...), PATH, flags)
OPEN(openat, (int at, const char *path, int flags, ...), at, PATH, flags)
OPEN(openat64, (int at, const char *path, int flags, ...), at, PATH, flags)
