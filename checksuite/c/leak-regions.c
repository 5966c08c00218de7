/* SPDX-License-Identifier: Apache-2.0 */

/* A buffer is registered for each message. One in four is never deregistered. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(PAGE);
	static char memory[PAGE];
	int i;

	for (i = 0; i < 4; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);

		CHECK(mr);
		post_write(p.a, mr, 0, 64, to, 0, SIGNALED);
		done(p.a);
		if (!MISTAKE || i < 3)
			CHECK(!ibv_dereg_mr(mr));
	}
	if (MISTAKE)
		return 0;
	return finish();
}
