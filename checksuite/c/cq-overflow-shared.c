/* SPDX-License-Identifier: Apache-2.0 */

/* One completion queue for the receives of two queue pairs: with room for those of one, or of both. */

#include "suite.h"

int main(void)
{
	struct side *first = side(.cqe = MISTAKE ? 16 : 32), *second = side(.cq = first->cq);
	struct side *a = side(), *b = side();
	struct ibv_mr *to = region(PAGE);
	int i;

	connect_sides(first, a);
	connect_sides(second, b);
	for (i = 0; i < 16; i++) {
		post_receive(first, to, i * 64, 64);
		post_receive(second, to, PAGE / 2 + i * 64, 64);
	}
	return finish();
}
