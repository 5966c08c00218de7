/* SPDX-License-Identifier: Apache-2.0 */

/* The counter that is added to begins at a multiple of 4, not of 8. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *result = small_region(8), *counters = small_region(64);

	post_add(p.a, result, 0, 8, counters, MISTAKE ? 12 : 16, SIGNALED);
	next(p.a);
	return finish();
}
