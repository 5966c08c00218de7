/* SPDX-License-Identifier: Apache-2.0 */

/* An id is disconnected after it was destroyed. */

#include "suite.h"

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);
	struct rdma_cm_id *id = c.client;

	if (!MISTAKE) {
		CHECK(!rdma_disconnect(id));
		cm_take(c.at_server, RDMA_CM_EVENT_DISCONNECTED);
		cm_take(c.at_client, RDMA_CM_EVENT_DISCONNECTED);
	}
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	c.client = NULL;
	if (MISTAKE) {
		rdma_disconnect(id);
		cm_take(c.at_server, RDMA_CM_EVENT_DISCONNECTED);
	}
	cm_end(&c);
	return finish();
}
