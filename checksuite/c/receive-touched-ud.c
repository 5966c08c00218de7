/* SPDX-License-Identifier: Apache-2.0 */

/* Two datagrams are expected. The buffer of the second is used as scratch memory once the first has come. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = small_region(64), *to = small_region(2 * 128), *scratch = small_region(128);
	struct ibv_ah *ah = address_of_device(pd);
	int i;

	post_receive(p.b, to, 0, 128);
	post_receive(p.b, to, 128, 128);
	for (i = 0; i < 2; i++) {
		post_datagram(p.a, p.b, ah, from, 0, 64, SIGNALED);
		done(p.a);
		done(p.b);
		if (i == 0)
			memset(MISTAKE ? (char *)to->addr + 128 : scratch->addr, 'x', 64);
	}
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
