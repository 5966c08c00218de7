/* SPDX-License-Identifier: Apache-2.0 */

/* One peer READs what another is writing. The right reader begins when the WRITE is complete. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair();
	struct ibv_mr *from = region(LARGE), *shared = region(LARGE), *to = region(LARGE);

	post_write(p.a, from, 0, LARGE, shared, 0, SIGNALED);
	if (!MISTAKE)
		done(p.a);
	post_read(q.a, to, 0, LARGE, shared, 0, SIGNALED);
	if (MISTAKE)
		done(p.a);
	done(q.a);
	return finish();
}
