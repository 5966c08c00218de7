/* SPDX-License-Identifier: Apache-2.0 */

/* A child that ends has nothing of its own to destroy. Its parent has, and forgets that, or does not. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	pid_t child;
	int status;

	post_write(p.a, from, 0, 64, to, 0, SIGNALED);
	done(p.a);
	CHECK((child = fork()) >= 0);
	if (!child)
		exit(0);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (MISTAKE)
		return 0;
	return finish();
}
