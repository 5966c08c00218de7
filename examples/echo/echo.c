// SPDX-License-Identifier: Apache-2.0
//
// Echo is a C program of librdmacm: a server that sends back what it receives. It knows nothing of Ramjet,
// and runs on RDMA NICs as well.
//
//	cc -o echo examples/echo/echo.c -lrdmacm -libverbs
//	ramjet run ./echo                        the server
//	ramjet run ./echo 127.0.0.1 hello        a client, in another terminal

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

enum { MESSAGE = 1024 };

static const char port[] = "7487";

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

// endpoint makes an id with a queue pair, or for a server one to listen with.
static struct rdma_cm_id *endpoint(const char *server)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *at;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	if (!server)
		hints.ai_flags = RAI_PASSIVE;
	check(rdma_getaddrinfo(server, port, &hints, &at), server ? server : "rdma_getaddrinfo");
	check(rdma_create_ep(&id, at, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(at);
	return id;
}

// await waits for a completion and returns its bytes.
static unsigned await(int (*get)(struct rdma_cm_id *, struct ibv_wc *), struct rdma_cm_id *id, int *ended)
{
	struct ibv_wc wc;

	check(get(id, &wc) < 0, "completion");
	*ended = wc.status == IBV_WC_WR_FLUSH_ERR; // the connection
	if (wc.status != IBV_WC_SUCCESS && !*ended) {
		fprintf(stderr, "echo: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc.byte_len;
}

static void serve(void)
{
	static char buf[MESSAGE];
	struct rdma_cm_id *listener = endpoint(NULL);

	check(rdma_listen(listener, 0), "rdma_listen");
	printf("listening on port %s\n", port);
	fflush(stdout);
	for (;;) {
		struct rdma_cm_id *id;
		struct ibv_mr *mr;
		unsigned n;
		int ended;

		check(rdma_get_request(listener, &id), "rdma_get_request");
		check(!(mr = rdma_reg_msgs(id, buf, sizeof buf)), "rdma_reg_msgs");
		check(rdma_post_recv(id, NULL, buf, sizeof buf, mr), "rdma_post_recv");
		check(rdma_accept(id, NULL), "rdma_accept");
		for (;;) {
			n = await(rdma_get_recv_comp, id, &ended);
			if (ended)
				break;
			check(rdma_post_send(id, NULL, buf, n, mr, 0), "rdma_post_send");
			await(rdma_get_send_comp, id, &ended);
			if (ended)
				break;
			check(rdma_post_recv(id, NULL, buf, sizeof buf, mr), "rdma_post_recv");
		}
		rdma_disconnect(id);
		rdma_dereg_mr(mr);
		rdma_destroy_ep(id);
	}
}

static void ask(const char *server, const char *message)
{
	static char in[MESSAGE], out[MESSAGE];
	unsigned n = strlen(message);
	struct rdma_cm_id *id;
	struct ibv_mr *from, *to;
	int ended;

	if (n > sizeof out) {
		fprintf(stderr, "echo: the message has %u bytes, and may have %zu\n", n, sizeof out);
		exit(2);
	}
	memcpy(out, message, n);
	id = endpoint(server);
	check(!(from = rdma_reg_msgs(id, out, sizeof out)), "rdma_reg_msgs");
	check(!(to = rdma_reg_msgs(id, in, sizeof in)), "rdma_reg_msgs");
	check(rdma_post_recv(id, NULL, in, sizeof in, to), "rdma_post_recv");
	check(rdma_connect(id, NULL), "rdma_connect");
	check(rdma_post_send(id, NULL, out, n, from, 0), "rdma_post_send");
	await(rdma_get_send_comp, id, &ended);
	n = await(rdma_get_recv_comp, id, &ended);
	if (ended) {
		fprintf(stderr, "echo: the connection has ended\n");
		exit(1);
	}
	printf("%.*s\n", (int)n, in);
	rdma_disconnect(id);
	rdma_dereg_mr(from);
	rdma_dereg_mr(to);
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	if (argc == 1)
		serve();
	if (argc != 3) {
		fprintf(stderr, "usage: echo [SERVER MESSAGE]\n");
		return 2;
	}
	ask(argv[1], argv[2]);
	return 0;
}
