/* SPDX-License-Identifier: Apache-2.0 */

/* The result of an atomic is set to a mark after the post, in 8 bytes between others that the program may change. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *result = small_region(24), *counter = small_region(8);
	uint64_t *r = result->addr;

	post_add(p.a, result, 8, 8, counter, 0, SIGNALED);
	r[MISTAKE ? 1 : 0] = ~0ULL;
	r[2] = 7;
	done(p.a);
	return finish();
}
