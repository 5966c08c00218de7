/* SPDX-License-Identifier: Apache-2.0 */

/* A datagram needs 40 bytes more than its data, for the GRH: the receive has them, or not. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);

	post_receive(p.b, to, 0, 64 + (MISTAKE ? 0 : GRH));
	post_datagram(p.a, p.b, ah, from, 0, 64, SIGNALED);
	done(p.a);
	if (MISTAKE)
		move(p.b, p.b, 100);
	else
		done(p.b);
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
