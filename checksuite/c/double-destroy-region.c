/* SPDX-License-Identifier: Apache-2.0 */

/* A region is deregistered by both of two owners, or by the last of them. */

#include "suite.h"

struct owner {
	struct ibv_mr *mr;
};

static int owners;

static void let_go(struct owner *o)
{
	if (MISTAKE || --owners == 0)
		ibv_dereg_mr(o->mr);
}

int main(void)
{
	static char memory[PAGE];
	struct owner one, two;

	open_device();
	CHECK((one.mr = ibv_reg_mr(pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE)));
	two = one;
	owners = 2;
	let_go(&one);
	let_go(&two);
	return finish();
}
