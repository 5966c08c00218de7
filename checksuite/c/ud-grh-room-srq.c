/* SPDX-License-Identifier: Apache-2.0 */

/* Receives of a shared receive queue for datagrams without data: even they take 40 bytes. */

#include "suite.h"

int main(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq;
	struct pair p;
	struct ibv_mr *to;
	struct ibv_ah *ah;

	open_device();
	CHECK((srq = ibv_create_srq(pd, &attr)));
	p = pair(.type = IBV_QPT_UD, .srq = srq);
	to = region(PAGE);
	ah = address_of_device(pd);
	post_srq(srq, to, 0, MISTAKE ? 32 : GRH);
	post_datagram(p.a, p.b, ah, to, 64, 0, SIGNALED);
	done(p.a);
	if (MISTAKE)
		move(p.b, p.b, 100);
	else
		done(p.b);
	CHECK(!ibv_destroy_ah(ah));
	CHECK(!ibv_destroy_qp(p.a->qp) && !ibv_destroy_qp(p.b->qp));
	p.a->qp = p.b->qp = NULL;
	CHECK(!ibv_destroy_srq(srq));
	return finish();
}
