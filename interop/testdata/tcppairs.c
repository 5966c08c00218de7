// SPDX-License-Identifier: Apache-2.0
//
// tcppairs PAIRS SECONDS: pairs of processes send 64 bytes to and fro over TCP, and sleep in read(2) while they wait. It
// prints a line for each pair: how many round trips it made. busyfigures.py compares Ramjet with that.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// bounce answers each message, until the time is over or the other side has gone. It returns how many came.
static long bounce(int s, double end)
{
	char message[SIZE];
	long n = 0;
	while (now() < end && recv(s, message, SIZE, MSG_WAITALL) == SIZE && send(s, message, SIZE, MSG_NOSIGNAL) == SIZE)
		n++;
	return n;
}

static int tcp(void)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0)
		fail("socket");
	return s;
}

static void no_delay(int s)
{
	int on = 1;
	if (setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
		fail("TCP_NODELAY");
}

// pair is both processes of a pair, each in a session of its own.
static void pair(double end)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof at;
	int listener = tcp();
	if (bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &length))
		fail("listen");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	setsid();
	if (child == 0) {
		char message[SIZE] = {0};
		int s = tcp();
		if (connect(s, (struct sockaddr *)&at, length))
			fail("connect");
		no_delay(s);
		if (send(s, message, SIZE, 0) != SIZE)
			fail("send");
		bounce(s, end);
		exit(0);
	}
	int s = accept(listener, NULL, NULL);
	if (s < 0)
		fail("accept");
	no_delay(s);
	printf("%ld\n", bounce(s, end));
	exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: tcppairs PAIRS SECONDS\n");
		return 2;
	}
	double end = now() + atof(argv[2]);
	for (int n = atoi(argv[1]); n > 0; n--) {
		pid_t child = fork();
		if (child < 0)
			fail("fork");
		if (child == 0)
			pair(end);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
