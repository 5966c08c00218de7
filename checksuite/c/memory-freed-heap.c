/* SPDX-License-Identifier: Apache-2.0 */

/* Memory of the heap that a peer has the key of is freed before the region goes. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	char *buffer = malloc(LARGE);
	struct ibv_mr *mr = region_at(buffer, LARGE), *from = region(PAGE);

	post_write(p.a, from, 0, PAGE, mr, 0, SIGNALED); /* so the peer has the key */
	done(p.a);
	if (MISTAKE)
		free(buffer);
	deregister(mr);
	if (!MISTAKE)
		free(buffer);
	return finish();
}
