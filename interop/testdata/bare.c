// SPDX-License-Identifier: Apache-2.0
//
// Bulk data over bare sockets, with nothing of a protocol but a window: a bound for RoCEv2 over UDP, beside TCP. The
// datagrams are as long as packets of RoCEv2 with an MTU of 4096, 15 in one send (UDP_SEGMENT) and one receive (UDP_GRO). The sender reads each packet for a CRC, and the
// receiver copies it into place with another, as an ICRC demands. The CRC is the processor's own (CRC32C), which costs
// no more than the ICRC's.
//
//	bare udp|tcp receive|send ADDRESS PORT MIBS
//
// The sender prints MiB/s.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <nmmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

enum { mib = 1 << 20, packet = 4096 + 28, packets = 15, window = 2 * mib, acknowledge = mib / 4 };

static char memory[mib], received[mib], buffer[1 << 16];
static volatile uint64_t checked;

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

// crc reads a packet in three streams, as the instruction's latency wants, and copies it if there is a place for it.
static void crc(char *to, const char *from, size_t length)
{
	size_t third = length / 24;
	uint64_t a = 0, b = 0, c = 0;
	for (size_t i = 0; i < third; i++) {
		uint64_t x, y, z;
		memcpy(&x, from + 8 * i, 8);
		memcpy(&y, from + 8 * (third + i), 8);
		memcpy(&z, from + 8 * (2 * third + i), 8);
		a = _mm_crc32_u64(a, x);
		b = _mm_crc32_u64(b, y);
		c = _mm_crc32_u64(c, z);
		if (to) {
			memcpy(to + 8 * i, &x, 8);
			memcpy(to + 8 * (third + i), &y, 8);
			memcpy(to + 8 * (2 * third + i), &z, 8);
		}
	}
	checked = a ^ b ^ c;
}

static void receive_packets(int s, struct sockaddr_in *at, uint64_t total)
{
	int one = 1;
	if (setsockopt(s, IPPROTO_UDP, UDP_GRO, &one, sizeof one)) fail("UDP_GRO");
	if (bind(s, (void *)at, sizeof *at)) fail("bind");
	size_t place = 0;
	for (uint64_t got = 0, told = 0; got < total;) {
		struct sockaddr_in from;
		socklen_t length = sizeof from;
		ssize_t n = recvfrom(s, buffer, sizeof buffer, 0, (void *)&from, &length);
		if (n < 0) fail("recvfrom");
		for (ssize_t o = 0; o < n; o += packet, place += packet) {
			if (place + packet > sizeof received) place = 0;
			crc(received + place, buffer + o, n - o < packet ? n - o : packet);
		}
		got += n;
		if (got - told >= acknowledge || got >= total) {
			told = got;
			if (sendto(s, &got, sizeof got, 0, (void *)&from, length) < 0) fail("sendto");
		}
	}
}

static void send_packets(int s, struct sockaddr_in *to, uint64_t total)
{
	int segment = packet;
	if (setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment)) fail("UDP_SEGMENT");
	if (connect(s, (void *)to, sizeof *to)) fail("connect");
	size_t place = 0;
	for (uint64_t sent = 0, told = 0; told < total;) {
		if (sent < total && sent - told < window) {
			if (place + packet * packets > sizeof memory) place = 0;
			for (int i = 0; i < packets; i++) crc(NULL, memory + place + i * packet, packet);
			if (send(s, memory + place, packet * packets, 0) < 0) fail("send");
			sent += packet * packets;
			place += packet * packets;
			while (recv(s, &told, sizeof told, MSG_DONTWAIT) > 0) {
			}
		} else if (recv(s, &told, sizeof told, 0) < 0) {
			fail("recv");
		}
	}
}

static void receive_stream(int s, struct sockaddr_in *at, uint64_t total)
{
	int one = 1;
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, (void *)at, sizeof *at) || listen(s, 1)) fail("listen");
	int c = accept(s, NULL, NULL);
	for (uint64_t got = 0; got < total;) {
		ssize_t n = recv(c, received, sizeof received, 0);
		if (n <= 0) fail("recv");
		got += n;
	}
	if (send(c, "", 1, 0) != 1) fail("send");
}

static void send_stream(int s, struct sockaddr_in *to, uint64_t total)
{
	if (connect(s, (void *)to, sizeof *to)) fail("connect");
	for (uint64_t sent = 0; sent < total;) {
		ssize_t n = send(s, memory, total - sent < sizeof memory ? total - sent : sizeof memory, 0);
		if (n < 0) fail("send");
		sent += n;
	}
	if (recv(s, buffer, 1, 0) != 1) fail("recv");
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	if (argc != 6 || inet_pton(AF_INET, argv[3], &address.sin_addr) != 1) {
		fprintf(stderr, "bare udp|tcp receive|send ADDRESS PORT MIBS\n");
		return 2;
	}
	address.sin_port = htons(atoi(argv[4]));
	int udp = !strcmp(argv[1], "udp"), receiver = !strcmp(argv[2], "receive"), room = 16 * mib;
	uint64_t total = strtoull(argv[5], NULL, 10) * mib;
	memset(memory, 1, sizeof memory); // pages of its own, not the zero page
	memset(received, 1, sizeof received);
	int s = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
	if (s < 0) fail("socket");
	if (udp && (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) || setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room)))
		fail("SO_RCVBUFFORCE"); // needs CAP_NET_ADMIN
	double start = now();
	if (receiver) {
		(udp ? receive_packets : receive_stream)(s, &address, total);
		return 0;
	}
	(udp ? send_packets : send_stream)(s, &address, total);
	printf("%.0f\n", total / mib / (now() - start));
	return 0;
}
