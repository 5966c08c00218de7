/* SPDX-License-Identifier: Apache-2.0 */

/* Two READs, and one completion: it is the first's. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(2 * PAGE), *from = region(2 * PAGE);

	post_read(p.a, to, 0, PAGE, from, 0, SIGNALED);
	post_read(p.a, to, PAGE, PAGE, from, PAGE, SIGNALED);
	done(p.a);
	memset((char *)to->addr + (MISTAKE ? PAGE : 0), 'x', PAGE);
	done(p.a);
	return finish();
}
