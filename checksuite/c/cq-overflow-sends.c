/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Twelve signaled WRITEs are under way before the first completion is polled, with eight entries. The right
 * program polls when eight are under way.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.cqe = 8);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	int i, polled = 0;

	for (i = 0; i < 12; i++) {
		if (!MISTAKE && i - polled == 8) {
			done(p.a);
			polled++;
		}
		post_write(p.a, from, 0, 64, to, 0, SIGNALED);
	}
	if (MISTAKE)
		return finish();
	while (polled++ < 12)
		done(p.a);
	return finish();
}
