/* SPDX-License-Identifier: Apache-2.0 */

/* An error path and the end of the program both destroy the queue pair. The right one sets the pointer to NULL. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_qp *qp = p.a->qp;

	CHECK(!ibv_destroy_qp(qp));
	p.a->qp = NULL;
	if (!MISTAKE)
		qp = NULL;
	if (qp)
		ibv_destroy_qp(qp);
	return finish();
}
