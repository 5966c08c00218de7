/* SPDX-License-Identifier: Apache-2.0 */

/* A completion queue is made smaller than the receives that are posted: eight entries, or twelve, for twelve. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(PAGE);
	int i;

	for (i = 0; i < 12; i++)
		post_receive(p.b, to, i * 64, 64);
	CHECK(!ibv_resize_cq(p.b->cq, MISTAKE ? 8 : 12));
	return finish();
}
