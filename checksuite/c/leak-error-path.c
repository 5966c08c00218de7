/* SPDX-License-Identifier: Apache-2.0 */

/* A program that ends early, and leaves its queue pairs. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	post_write(p.a, from, 0, 64, to, 0, SIGNALED);
	done(p.a);
	if (MISTAKE)
		return 0;
	return finish();
}
