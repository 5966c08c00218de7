/* SPDX-License-Identifier: Apache-2.0 */

/* Calls the functions that its arguments name, LIBRARY:NAME, with NULL and 0 for all they take. rdma-core ends
 * many such programs by SIGSEGV, and so may these libraries, in C: that is caught here. A panic in Go is not. */

#include "../kit.h"

#include <dlfcn.h>
#include <setjmp.h>

typedef long (*function)(long, long, long, long, long, long);

static sigjmp_buf back;

static void fault(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void call(const char *path, const char *name)
{
	void *library = dlopen(path, RTLD_NOW);
	function f = library ? (function)dlsym(library, name) : NULL;

	if (!f) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(1);
	}
	fprintf(stderr, "%s\n", name);
	if (!sigsetjmp(back, 1))
		f(0, 0, 0, 0, 0, 0);
}

int main(int n, char **v)
{
	struct sigaction action = { .sa_handler = fault };
	int i;

	CHECK(!sigaction(SIGSEGV, &action, NULL));
	alarm(170);
	open_device(); /* so that Go is there */
	for (i = 1; i < n; i++) {
		char *name = strchr(v[i], ':');

		*name++ = 0;
		call(v[i], name);
	}
	fprintf(stderr, "all returned\n");
	_exit(0); /* their own ends are not looked at */
}
