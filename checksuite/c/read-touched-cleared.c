/* SPDX-License-Identifier: Apache-2.0 */

/* The target of a READ is cleared after the post. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(16 * PAGE), *from = region(16 * PAGE);

	memset(from->addr, 1, 16 * PAGE);
	memset(to->addr, 'x', 16 * PAGE);
	if (!MISTAKE)
		memset(to->addr, 0, 16 * PAGE);
	post_read(p.a, to, 0, 16 * PAGE, from, 0, SIGNALED);
	if (MISTAKE)
		memset(to->addr, 0, 16 * PAGE);
	done(p.a);
	return finish();
}
