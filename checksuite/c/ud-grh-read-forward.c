/* SPDX-License-Identifier: Apache-2.0 */

/* A datagram's data is sent on over RC: from where it is, or from the start of the receive, where the GRH is. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.type = IBV_QPT_UD), q = pair();
	struct ibv_mr *from = region(PAGE), *middle = region(PAGE), *to = region(PAGE);
	struct ibv_ah *ah = address_of_device(pd);

	post_receive(p.b, middle, 0, GRH + 64);
	post_receive(q.b, to, 0, 64);
	post_datagram(p.a, p.b, ah, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	post_send(q.a, middle, MISTAKE ? 0 : GRH, 64, SIGNALED);
	done(q.a);
	done(q.b);
	CHECK(!ibv_destroy_ah(ah));
	return finish();
}
