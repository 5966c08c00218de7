/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A buffer grows by realloc, which may move it, while its old memory is registered and a peer has the key. The
 * right program deregisters, grows and registers again.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	char *buffer = malloc(LARGE), *grown;
	struct ibv_mr *mr = region_at(buffer, LARGE), *from = region(PAGE);

	post_write(p.a, from, 0, PAGE, mr, 0, SIGNALED);
	done(p.a);
	if (!MISTAKE)
		deregister(mr);
	CHECK((grown = realloc(buffer, 64 * LARGE)));
	if (MISTAKE)
		deregister(mr);
	mr = region_at(grown, 64 * LARGE);
	post_write(p.a, from, 0, PAGE, mr, 0, SIGNALED);
	done(p.a);
	deregister(mr);
	free(grown);
	return finish();
}
