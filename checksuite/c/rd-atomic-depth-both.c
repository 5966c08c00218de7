/* SPDX-License-Identifier: Apache-2.0 */

/* Each side may have more READs under way than the other answers at once, or as many. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.rd_atomic = MISTAKE ? 8 : 2, .dest_rd_atomic = 2);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	post_read(p.a, to, 0, 64, from, 0, SIGNALED);
	done(p.a);
	return finish();
}
