/* SPDX-License-Identifier: Apache-2.0 */

/* Only the client reads, 8 at once. The server that answers 8 itself has no need of READs of its own. */

#include "suite.h"

int main(void)
{
	struct side *client = side(.rd_atomic = 8, .dest_rd_atomic = 1);
	struct side *server = side(.rd_atomic = 1, .dest_rd_atomic = MISTAKE ? 4 : 8);
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	int i;

	connect_sides(client, server);
	for (i = 0; i < 8; i++)
		post_read(client, to, i * 64, 64, from, 0, SIGNALED);
	for (i = 0; i < 8; i++)
		next(client);
	return finish();
}
