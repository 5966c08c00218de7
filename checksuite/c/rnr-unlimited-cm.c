/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A connection with retries without end: the right server posts its receive before it accepts, the wrong one when
 * the client has sent.
 */

#include "suite.h"

#include <rdma/rdma_verbs.h>

static char from[64], to[64];

static struct ibv_mr *receive(struct rdma_cm_id *id)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, to, sizeof to);

	CHECK(mr && !rdma_post_recv(id, NULL, to, sizeof to, mr));
	return mr;
}

int main(void)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct cm_pair c = cm_request(&param);
	struct ibv_mr *out, *in;
	struct ibv_wc wc;
	int i;

	if (!MISTAKE)
		in = receive(c.server);
	CHECK(!rdma_accept(c.server, &param));
	cm_take(c.at_client, RDMA_CM_EVENT_ESTABLISHED);
	cm_take(c.at_server, RDMA_CM_EVENT_ESTABLISHED);
	CHECK((out = rdma_reg_msgs(c.client, from, sizeof from)));
	CHECK(!rdma_post_send(c.client, NULL, from, sizeof from, out, SIGNALED));
	if (MISTAKE) {
		for (i = 0; i < 300; i++) {
			CHECK(!ibv_poll_cq(c.client->send_cq, 1, &wc) && !ibv_poll_cq(c.server->recv_cq, 1, &wc));
			usleep(1000);
		}
		in = receive(c.server);
	}
	CHECK(rdma_get_send_comp(c.client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(c.server, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	rdma_destroy_qp(c.client);
	rdma_destroy_qp(c.server);
	CHECK(!rdma_dereg_mr(out) && !rdma_dereg_mr(in));
	cm_end(&c);
	return finish();
}
