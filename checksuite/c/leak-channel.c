/* SPDX-License-Identifier: Apache-2.0 */

/* The completion queue is destroyed, and its channel is not. */

#include "suite.h"

int main(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;

	open_device();
	CHECK((channel = ibv_create_comp_channel(context)));
	CHECK((cq = ibv_create_cq(context, 8, NULL, channel, 0)));
	CHECK(!ibv_destroy_cq(cq));
	if (MISTAKE)
		return 0;
	CHECK(!ibv_destroy_comp_channel(channel));
	return finish();
}
