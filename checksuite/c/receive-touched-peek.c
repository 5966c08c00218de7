/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program looks at the length in the head of a message before its completion, while the device may be writing
 * it.
 */

#include "suite.h"

struct message {
	int length;
	char data[60];
};

int main(void)
{
	struct pair p = pair();
	struct ibv_mr *from = region(PAGE), *to = region(PAGE);
	volatile struct message *m = to->addr;
	int length = 0;

	((struct message *)from->addr)->length = 60;
	post_receive(p.b, to, 0, PAGE);
	post_send(p.a, from, 0, sizeof *m, SIGNALED);
	if (MISTAKE)
		length = m->length;
	done(p.a);
	done(p.b);
	if (!MISTAKE)
		length = m->length;
	CHECK(length == 60 || MISTAKE);
	return finish();
}
