/* SPDX-License-Identifier: Apache-2.0 */

/* A counter that one peer adds to is set by another's WRITE; the right one resets it by an atomic too. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *counter = small_region(8), *result = small_region(16), *zero = small_region(8);

	post_add(p.a, result, 0, 8, counter, 0, SIGNALED);
	if (MISTAKE)
		post_write(q.a, zero, 0, 8, counter, 0, SIGNALED);
	else
		post_add(q.a, result, 8, 8, counter, 0, SIGNALED);
	done(p.a);
	done(q.a);
	return finish();
}
