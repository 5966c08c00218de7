/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One peer writes and says so to the owner, which tells another, which reads: each by a SEND. That is an order,
 * though the WRITE's own completion is not polled. The wrong reader waits for nothing.
 */

#include "suite.h"

int main(void)
{
	struct pair writer = pair(), reader = pair();
	struct ibv_mr *from = region(LARGE), *shared = region(LARGE), *to = region(LARGE), *words = region(PAGE);

	post_receive(writer.b, words, 0, 64);
	post_receive(reader.a, words, 64, 64);
	post_write(writer.a, from, 0, LARGE, shared, 0, 0);
	post_send(writer.a, words, 128, 8, SIGNALED);
	if (MISTAKE)
		post_read(reader.a, to, 0, LARGE, shared, 0, SIGNALED);
	done(writer.b);
	post_send(reader.b, words, 192, 8, SIGNALED);
	done(reader.a);
	if (!MISTAKE)
		post_read(reader.a, to, 0, LARGE, shared, 0, SIGNALED);
	done(reader.a);
	done(reader.b);
	done(writer.a);
	return finish();
}
