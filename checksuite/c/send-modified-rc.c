/* SPDX-License-Identifier: Apache-2.0 */

/* The buffer of a SEND is filled again before its completion was polled; the right program fills it just after. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	strcpy(from->addr, "first");
	post_receive(p.b, to, 0, PAGE);
	post_send(p.a, from, 0, PAGE, SIGNALED);
	if (MISTAKE)
		strcpy(from->addr, "second");
	done(p.a);
	if (!MISTAKE)
		strcpy(from->addr, "second");
	done(p.b);
	return finish();
}
