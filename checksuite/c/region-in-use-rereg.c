/* SPDX-License-Identifier: Apache-2.0 */

/* A region gets other memory by ibv_rereg_mr while a READ into it is posted. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(16 * PAGE), *from = region(16 * PAGE);
	static char other[PAGE];

	post_read(p.a, to, 0, 16 * PAGE, from, 0, SIGNALED);
	if (MISTAKE)
		ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, sizeof other, 0);
	next(p.a);
	if (!MISTAKE)
		CHECK(!ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, sizeof other, 0));
	return finish();
}
