/* SPDX-License-Identifier: Apache-2.0 */

/* An id is destroyed by the loop over its events and again at the end. */

#include "suite.h"

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);
	struct rdma_cm_id *id = c.server;

	CHECK(!rdma_disconnect(c.client));
	cm_take(c.at_server, RDMA_CM_EVENT_DISCONNECTED);
	cm_take(c.at_client, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	c.server = NULL;
	if (MISTAKE)
		rdma_destroy_id(id);
	cm_end(&c);
	return finish();
}
