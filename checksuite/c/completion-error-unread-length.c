/* SPDX-License-Identifier: Apache-2.0 */

/* A SEND is longer than its receive. The sender sees that, and the receiver does not look. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	post_receive(p.b, to, 0, 64);
	post_send(p.a, from, 0, 128, SIGNALED);
	CHECK(next(p.a).status == IBV_WC_REM_INV_REQ_ERR);
	if (!MISTAKE)
		CHECK(next(p.b).status == IBV_WC_LOC_LEN_ERR);
	return finish();
}
