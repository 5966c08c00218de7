/* SPDX-License-Identifier: Apache-2.0 */

/* A WRITE with immediate data finds no receive. The right sender gives up after a retry, and sees the error. */

#include "suite.h"

int main(void)
{
	struct pair p = pair(.finite_rnr = !MISTAKE);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	post_imm(p.a, from, 0, 64, to, 0, SIGNALED);
	if (MISTAKE) {
		move(p.a, p.b, 300);
		post_receive(p.b, to, 0, 0);
		done(p.a);
		done(p.b);
		return finish();
	}
	CHECK(next(p.a).status == IBV_WC_RNR_RETRY_EXC_ERR);
	return finish();
}
