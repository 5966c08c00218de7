/* SPDX-License-Identifier: Apache-2.0 */

/* A region is deregistered while a receive into it is posted; the right one, once the receive has completed. */

#include "suite.h"

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);

	post_receive(p.b, to, 0, PAGE);
	if (MISTAKE) {
		deregister(to);
		return finish();
	}
	post_send(p.a, from, 0, 64, SIGNALED);
	done(p.a);
	done(p.b);
	deregister(to);
	return finish();
}
