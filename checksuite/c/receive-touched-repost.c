/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A server ends the message with a zero byte, and posts the receive again: before, or after it has worked on the
 * buffer.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	char *message = to->addr;
	int i;

	memset(from->addr, 'a', PAGE);
	post_receive(p.b, to, 0, PAGE);
	for (i = 0; i < 2; i++) {
		struct ibv_wc wc;

		post_send(p.a, from, 0, 100 + i, SIGNALED);
		done(p.a);
		wc = next(p.b);
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (MISTAKE)
			post_receive(p.b, to, 0, PAGE);
		message[wc.byte_len] = 0;
		if (!MISTAKE)
			post_receive(p.b, to, 0, PAGE);
	}
	return finish();
}
