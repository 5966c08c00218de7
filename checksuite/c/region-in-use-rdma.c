/* SPDX-License-Identifier: Apache-2.0 */

/* The server ends with rdma_dereg_mr before its queue pair is gone, though a receive is posted; or after it. */

#include "suite.h"

#include <rdma/rdma_verbs.h>

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);
	static char to[64];
	struct ibv_mr *at = rdma_reg_msgs(c.server, to, sizeof to);

	CHECK(at);
	CHECK(!rdma_post_recv(c.server, NULL, to, sizeof to, at));
	if (MISTAKE)
		CHECK(!rdma_dereg_mr(at));
	rdma_destroy_qp(c.server);
	if (!MISTAKE)
		CHECK(!rdma_dereg_mr(at));
	cm_end(&c);
	return finish();
}
