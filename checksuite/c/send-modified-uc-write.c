/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE over UC of many pages: its last byte is changed before the completion, or after it. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UC);
	struct ibv_mr *from = region(8 * PAGE), *to = region(8 * PAGE);
	char *last = (char *)from->addr + 8 * PAGE - 1;

	*last = 1;
	post_write(p.a, from, 0, 8 * PAGE, to, 0, SIGNALED);
	if (MISTAKE)
		*last = 2;
	done(p.a);
	*last = 2;
	return finish();
}
