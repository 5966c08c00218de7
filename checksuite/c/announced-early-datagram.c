/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE is announced by a datagram: at once, or when it is complete. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(), q = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = region(LARGE), *to = region(LARGE), *word = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);
	volatile char *last = (char *)to->addr + LARGE - 1;

	memset(from->addr, 1, LARGE);
	post_receive(q.b, word, 0, 64);
	post_write(p.a, from, 0, LARGE, to, 0, SIGNALED);
	if (!MISTAKE)
		done(p.a);
	post_datagram(q.a, q.b, ah, word, 64, 8, SIGNALED);
	done(q.b);
	CHECK(*last == 1 || MISTAKE);
	done(q.a);
	if (MISTAKE)
		done(p.a);
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
