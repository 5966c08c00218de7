/* SPDX-License-Identifier: Apache-2.0 */

/* An echo of datagrams, which sends back the buffer as it was received, or the data in it. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD);
	struct ibv_mr *from = small_region(64), *echo = small_region(GRH + 64), *back = small_region(GRH + 128);
	struct ibv_ah *ah = address_of_device(pd);

	post_receive(p.b, echo, 0, GRH + 64);
	post_receive(p.a, back, 0, GRH + 128);
	post_datagram(p.a, p.b, ah, from, 0, 64, SIGNALED);
	done(p.b);
	if (MISTAKE)
		post_datagram(p.b, p.a, ah, echo, 0, GRH + 64, SIGNALED);
	else
		post_datagram(p.b, p.a, ah, echo, GRH, 64, SIGNALED);
	done(p.b);
	done(p.a);
	done(p.a);
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
