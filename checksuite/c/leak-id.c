/* SPDX-License-Identifier: Apache-2.0 */

/* The id of a connection is destroyed by its client, and not by the server. */

#include "suite.h"

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);

	CHECK(!rdma_disconnect(c.client));
	cm_take(c.at_server, RDMA_CM_EVENT_DISCONNECTED);
	cm_take(c.at_client, RDMA_CM_EVENT_DISCONNECTED);
	if (MISTAKE) {
		rdma_destroy_qp(c.client);
		CHECK(!rdma_destroy_id(c.client));
		return 0;
	}
	cm_end(&c);
	return finish();
}
