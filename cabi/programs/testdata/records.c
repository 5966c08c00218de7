/* SPDX-License-Identifier: Apache-2.0 */

/* Opens a device, forks, and has the child open one, too. Both print their process id. */

#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int opens(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && list[0] ? ibv_open_device(list[0]) : NULL;

	printf("%d\n", getpid());
	fflush(stdout);
	return c ? 0 : 1;
}

int main(void)
{
	int status = opens();
	pid_t child = fork();

	if (child == 0)
		return opens();
	if (child < 0 || waitpid(child, &child, 0) < 0)
		return 1;
	return status || child;
}
