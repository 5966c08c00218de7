/* SPDX-License-Identifier: Apache-2.0 */

/* A receive buffer is cleared after it was posted; the right program clears it first. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	memset(to->addr, 'x', PAGE);
	if (!MISTAKE)
		memset(to->addr, 0, PAGE);
	post_receive(p.b, to, 0, PAGE);
	if (MISTAKE)
		memset(to->addr, 0, PAGE);
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	return finish();
}
