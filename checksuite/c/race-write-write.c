/* SPDX-License-Identifier: Apache-2.0 */

/* Two peers WRITE to the same bytes at once; the right ones to bytes beside each other. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *one = region(PAGE), *two = region(PAGE), *to = region(2 * PAGE);

	memset(one->addr, 1, PAGE);
	memset(two->addr, 2, PAGE);
	post_write(p.a, one, 0, PAGE, to, 0, SIGNALED);
	post_write(q.a, two, 0, PAGE, to, MISTAKE ? PAGE / 2 : PAGE, SIGNALED);
	done(p.a);
	done(q.a);
	return finish();
}
