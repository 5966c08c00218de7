/* SPDX-License-Identifier: Apache-2.0 */

/* A small object of the heap is freed while a receive into it is posted. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	char *buffer = malloc(128);
	struct ibv_mr *mr = region_at(buffer, 128);

	post_receive(p.b, mr, 0, 128);
	if (MISTAKE)
		free(buffer);
	CHECK(!ibv_destroy_qp(p.b->qp));
	p.b->qp = NULL;
	deregister(mr);
	if (!MISTAKE)
		free(buffer);
	return finish();
}
