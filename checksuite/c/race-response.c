/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request and its response share a buffer of the client. The right server writes the response when it has the
 * request, which is correct before the client has polled the completion of its SEND. The wrong one does not wait.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *buffer = region(LARGE), *request = region(LARGE);
	struct ibv_mr *response = region(LARGE), *word = region(PAGE);

	memset(response->addr, 1, LARGE);
	post_receive(p.b, request, 0, LARGE);
	post_receive(p.a, word, 0, 64);
	post_send(p.a, buffer, 0, LARGE, SIGNALED);
	if (!MISTAKE)
		done(p.b);
	post_write(p.b, response, 0, LARGE, buffer, 0, 0);
	post_send(p.b, word, 64, 8, SIGNALED);
	done(p.b);
	if (MISTAKE)
		done(p.b);
	done(p.a);
	done(p.a);
	return finish();
}
