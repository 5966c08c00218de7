/* SPDX-License-Identifier: Apache-2.0 */

/* A program that forks before it opens a device, one that forks and execs, and one whose
 * child opens a device after the parent did. */

#include "kit.h"

static void in_child(void (*f)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		alarm(170);
		f();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void use(void)
{
	open_device();
	exchange();
}

int main(void)
{
	CHECK(!ibv_fork_init());
	in_child(use); /* as daemons do */
	use();
	CHECK(!system("exit 0"));
	exchange();
	in_child(use); /* in a process whose parent has a device open */
	exchange();
	return 0;
}
