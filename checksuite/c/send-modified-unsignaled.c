/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three WRITEs, of which the second is signaled. Its completion covers the first, whose buffer may change then.
 * The third is still the device's.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from[3], *to = region(3 * PAGE);
	int i;

	for (i = 0; i < 3; i++) {
		from[i] = region(PAGE);
		memset(from[i]->addr, i + 1, PAGE);
		post_write(p.a, from[i], 0, PAGE, to, i * PAGE, i == 1 ? SIGNALED : 0);
	}
	done(p.a);
	memset(from[MISTAKE ? 2 : 0]->addr, 'x', PAGE);
	post_write(p.a, from[1], 0, PAGE, to, PAGE, SIGNALED);
	done(p.a);
	return finish();
}
