/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A READ, and behind it on the same queue pair a SEND of the data that it brings. Without a fence the SEND may
 * leave before the data is there.
 */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *remote = region(PAGE), *data = region(PAGE), *to = region(PAGE);

	post_receive(p.b, to, 0, PAGE);
	post_read(p.a, data, 0, PAGE, remote, 0, 0);
	post_send(p.a, data, 0, PAGE, SIGNALED | (MISTAKE ? 0 : IBV_SEND_FENCE));
	done(p.a);
	done(p.b);
	return finish();
}
