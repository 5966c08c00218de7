/* SPDX-License-Identifier: Apache-2.0 */

/* rdma_post_send and rdma_get_send_comp: the message may change after the second. */

#include "suite.h"

#include <rdma/rdma_verbs.h>

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);
	static char message[64], to[64];
	struct ibv_mr *from = rdma_reg_msgs(c.client, message, sizeof message);
	struct ibv_mr *at = rdma_reg_msgs(c.server, to, sizeof to);
	struct ibv_wc wc;

	CHECK(from && at);
	CHECK(!rdma_post_recv(c.server, NULL, to, sizeof to, at));
	CHECK(!rdma_post_send(c.client, NULL, message, sizeof message, from, SIGNALED));
	if (MISTAKE)
		strcpy(message, "the next");
	CHECK(rdma_get_send_comp(c.client, &wc) == 1);
	if (!MISTAKE)
		strcpy(message, "the next");
	CHECK(rdma_get_recv_comp(c.server, &wc) == 1);
	rdma_destroy_qp(c.client);
	rdma_destroy_qp(c.server);
	CHECK(!rdma_dereg_mr(from) && !rdma_dereg_mr(at));
	cm_end(&c);
	return finish();
}
