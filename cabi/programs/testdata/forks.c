/* SPDX-License-Identifier: Apache-2.0 */

/* A program that forks before it opens a device, one that forks and execs, and one whose
 * child opens a device, and connection manager's ids on it, after the parent did. */

#include "kit.h"

#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>

static void in_child(void (*f)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		alarm(170);
		f();
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* manage uses librdmacm, which opens devices itself. */
static void manage(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel(), *two = rdma_create_event_channel();
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP }, *at;
	struct pollfd p = { .events = POLLIN };
	struct ibv_device_attr attr;
	struct rdma_cm_id *id;

	CHECK(one && two);
	CHECK(!rdma_getaddrinfo(strchr(getenv("RAMJET_DEVICES"), ':') + 1, "0", &hints, &at));
	CHECK(!rdma_create_id(one, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, at->ai_src_addr));
	CHECK(id->pd && !ibv_query_device(id->verbs, &attr));
	CHECK(!rdma_destroy_id(id));
	rdma_freeaddrinfo(at);
	rdma_destroy_event_channel(two);
	p.fd = one->fd;
	CHECK(!poll(&p, 1, 0)); /* it is another's end */
	rdma_destroy_event_channel(one);
}

static void use(void)
{
	open_device();
	exchange();
	manage();
}

/* nothing is what a child does that has no use for devices. */
static void nothing(void) { _exit(0); }

static int go[2];
static void (*then)(void); /* what orphan's child does */

/* orphan ends, and leaves a child that then, when its parent's parent says so, does what it is to do. */
static void orphan(void)
{
	char c;

	open_device();
	if (fork())
		return;
	close(go[1]); /* so that it ends with who is to say so */
	CHECK(read(go[0], &c, 1) == 1);
	then();
}

int main(void)
{
	int status;

	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1) && !pipe(go));
	then = nothing;
	in_child(orphan);
	in_child(use); /* what orphan had is free, though its child has not ended */
	CHECK(write(go[1], "", 1) == 1);
	CHECK(wait(&status) > 0 && status == 0);
	then = use; /* the address that its parent had */
	in_child(orphan);
	CHECK(write(go[1], "", 1) == 1);
	CHECK(wait(&status) > 0 && status == 0);
	CHECK(!ibv_fork_init());
	in_child(use); /* as daemons do */
	use();
	CHECK(!system("exit 0"));
	exchange();
	in_child(use); /* in a process whose parent has a device open */
	exchange();
	return 0;
}
