/* SPDX-License-Identifier: Apache-2.0 */

/* A program that changes its title, as servers do: its environment moves, and where it lay are other
 * words. Its devices are those that were named there, and then those that it names itself. */

#include "kit.h"

extern char **environ;

/* retitle does what setproctitle does. last is the last argument, behind which the environment lies. */
static void retitle(char *last)
{
	char *end = last + strlen(last) + 1, **moved;
	int i, n;

	for (n = 0; environ[n]; n++)
		;
	CHECK((moved = calloc(n + 1, sizeof *moved)));
	for (i = 0; i < n; i++) {
		CHECK(environ[i] == end); /* one behind the other */
		end += strlen(end) + 1;
		CHECK((moved[i] = strdup(environ[i])));
	}
	environ = moved;
	memset(last, 'x', end - last - 1);
}

/* only checks that there is one device, of this name. */
static void only(const char *name)
{
	struct ibv_device **list;
	int n;

	CHECK((list = ibv_get_device_list(&n)));
	if (n != 1 || strcmp(ibv_get_device_name(list[0]), name)) {
		fprintf(stderr, "%d devices, the first %s, and not %s alone\n", n, n ? ibv_get_device_name(list[0]) : "none", name);
		exit(1);
	}
	ibv_free_device_list(list);
}

int main(int argc, char **argv)
{
	char name[100], other[120];

	alarm(170);
	CHECK(getenv("RAMJET_DEVICES"));
	snprintf(name, sizeof name, "%s", getenv("RAMJET_DEVICES"));
	snprintf(other, sizeof other, "other=%s", name);
	strcpy(strchr(name, ':'), "0");
	retitle(argv[argc - 1]);
	only(name);
	open_device();
	exchange();
	CHECK(!setenv("RAMJET_DEVICES", other, 1));
	only("other");
	return 0;
}
