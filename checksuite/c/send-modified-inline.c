/* SPDX-License-Identifier: Apache-2.0 */

/* A small buffer on the stack is used again right after the post. That is right for inline data, which was copied. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *to = region(PAGE);
	char text[32] = "inline";
	struct ibv_mr *from = region_at(text, sizeof text);

	post_receive(p.b, to, 0, PAGE);
	post_send(p.a, from, 0, sizeof text, SIGNALED | (MISTAKE ? 0 : IBV_SEND_INLINE));
	memset(text, 'x', sizeof text);
	done(p.a);
	done(p.b);
	deregister(from);
	return finish();
}
