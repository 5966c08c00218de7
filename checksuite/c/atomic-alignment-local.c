/* SPDX-License-Identifier: Apache-2.0 */

/* The result of an atomic goes to an address that is no multiple of 8. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *results = small_region(64), *counter = small_region(8);

	post_add(p.a, results, MISTAKE ? 4 : 8, 8, counter, 0, SIGNALED);
	next(p.a);
	return finish();
}
