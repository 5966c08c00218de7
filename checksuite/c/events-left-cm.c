/* SPDX-License-Identifier: Apache-2.0 */

/* The disconnection is never taken from the event channel. */

#include "suite.h"

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);

	CHECK(!rdma_disconnect(c.client));
	cm_take(c.at_client, RDMA_CM_EVENT_DISCONNECTED);
	if (MISTAKE)
		return 0;
	cm_take(c.at_server, RDMA_CM_EVENT_DISCONNECTED);
	cm_end(&c);
	return finish();
}
