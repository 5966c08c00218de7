/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ring of two slots for datagrams. The third datagram takes the first slot: once its completion was polled, or
 * too early.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = small_region(2 * 64), *to = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);
	int i, polled = 0;

	for (i = 0; i < 3; i++)
		post_receive(p.b, to, i * 512, 512);
	for (i = 0; i < 3; i++) {
		if (!MISTAKE && i >= 2) {
			done(p.a);
			polled++;
		}
		memset((char *)from->addr + i % 2 * 64, i + 1, 64);
		post_datagram(p.a, p.b, ah, from, i % 2 * 64, 64, SIGNALED);
	}
	while (polled++ < 3)
		done(p.a);
	for (i = 0; i < 3; i++)
		done(p.b);
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
