/* SPDX-License-Identifier: Apache-2.0 */

/* An event of the connection manager is not acknowledged before its id is destroyed. */

#include "suite.h"

static void acknowledge(void *event)
{
	CHECK(!rdma_ack_cm_event(event));
}

int main(void)
{
	struct cm_pair c = cm_connect(NULL, NULL);
	struct rdma_cm_event *e;

	CHECK(!rdma_disconnect(c.client));
	e = cm_next(c.at_server, RDMA_CM_EVENT_DISCONNECTED);
	cm_take(c.at_client, RDMA_CM_EVENT_DISCONNECTED);
	if (MISTAKE)
		rescue(acknowledge, e);
	else
		acknowledge(e);
	cm_end(&c);
	return finish();
}
