/* SPDX-License-Identifier: Apache-2.0 */

/* The result of an atomic has 8 bytes: a piece of 16 is for two of them, as a programmer may think. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *results = small_region(16), *counter = small_region(8);

	post_add(p.a, results, 0, MISTAKE ? 16 : 8, counter, 0, SIGNALED);
	next(p.a);
	return finish();
}
