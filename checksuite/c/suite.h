/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the programs of the suite share. Each is compiled twice: with MISTAKE 1 and with MISTAKE 0.
 *
 * Objects of sides and regions are destroyed by finish. A program that destroys one itself sets the side's member to
 * NULL, or calls deregister.
 */

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { \
	if (!(x)) { \
		fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); \
		exit(1); \
	} \
} while (0)

#define PAGE 4096
#define LARGE (1 << 20)
#define GRH 40
#define QKEY 0x11111111
#define SIGNALED IBV_SEND_SIGNALED

/*
 * Zeros stand for RC, 16 work requests each, 64 bytes inline, 64 completions, rnr_retry 7, 4 READs and atomics.
 * An inline_size of -1 stands for none.
 */
struct options {
	enum ibv_qp_type type;
	int depth, inline_size, cqe, finite_rnr, rd_atomic, dest_rd_atomic;
	struct ibv_pd *pd;
	struct ibv_cq *cq;  /* of another side, or of the program */
	struct ibv_srq *srq;
	int events;         /* with a completion channel */
	uint64_t send_ops;  /* of an extended queue pair: IBV_QP_EX_WITH_… */
};

struct side {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct options options;
};

struct pair {
	struct side *a, *b;
};

/* The first device, and its domain. */
extern struct ibv_context *context;
extern struct ibv_pd *pd;

void open_device(void);
struct side *side_of(struct options options);
#define side(...) side_of((struct options){ __VA_ARGS__ })

/* pair opens the device and connects two queue pairs; those of UD are ready to send. */
struct pair pair_of(struct options options);
#define pair(...) pair_of((struct options){ __VA_ARGS__ })
void connect_to(struct side *s, uint32_t qpn, const union ibv_gid *gid);
void connect_sides(struct side *a, struct side *b);

/* finish takes the asynchronous events, destroys all that is left, and returns main's status. */
int finish(void);

/* region is whole pages of their own, region_at any memory; small_region is memory beside other objects. */
struct ibv_mr *region(size_t size);
struct ibv_mr *small_region(size_t size);
struct ibv_mr *region_at(void *p, size_t size);
void deregister(struct ibv_mr *mr);

void post_receive(struct side *s, struct ibv_mr *mr, size_t at, size_t length);
void post_srq(struct ibv_srq *srq, struct ibv_mr *mr, size_t at, size_t length);
void post_send(struct side *s, struct ibv_mr *mr, size_t at, size_t length, unsigned flags);
void post_imm(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *to, size_t to_at,
	unsigned flags);
void post_write(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *to,
	size_t to_at, unsigned flags);
void post_read(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *from,
	size_t from_at, unsigned flags);
void post_add(struct side *s, struct ibv_mr *mr, size_t at, size_t length, struct ibv_mr *to, size_t to_at,
	unsigned flags);
void post_remote(struct side *s, enum ibv_wr_opcode op, struct ibv_mr *mr, size_t length, uint64_t addr,
	uint32_t rkey);
void post_datagram(struct side *s, struct side *to, struct ibv_ah *ah, struct ibv_mr *mr, size_t at,
	size_t length, unsigned flags);
struct ibv_ah *address_of_device(struct ibv_pd *in);

/* next polls until there is a completion, and done until there is one of success. */
struct ibv_wc next(struct side *s);
void done(struct side *s);
/* move polls both sides for a while, which moves their packets, and returns the number of completions. */
int move(struct side *a, struct side *b, int milliseconds);

/*
 * rescue calls f after five seconds unless the program has ended by then. So a wrong program ends that would wait
 * for ever; its mistake has happened by then.
 */
void rescue(void (*f)(void *), void *arg);

/* Two connected ids, each with a channel of its own. The events up to ESTABLISHED were taken and acknowledged. */
struct cm_pair {
	struct rdma_event_channel *at_client, *at_server;
	struct rdma_cm_id *listener, *client, *server;
};

struct cm_pair cm_connect(struct rdma_conn_param *client, struct rdma_conn_param *server);
/* cm_request goes as far as the request, which the server has not answered. */
struct cm_pair cm_request(struct rdma_conn_param *client);
void cm_end(struct cm_pair *c);
/* cm_next takes the next event, which has to be of a type, and cm_take acknowledges it too. */
struct rdma_cm_event *cm_next(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
void cm_take(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* cm_listen returns an id that listens at the device's address, and cm_resolved one with a route to it. */
struct rdma_cm_id *cm_listen(struct rdma_event_channel *channel);
struct rdma_cm_id *cm_resolved(struct rdma_event_channel *channel, struct rdma_cm_id *listener);

/* thread and join: a thread of the program. */
pthread_t thread(void *(*f)(void *), void *arg);
void join(pthread_t t);

/* The other process: its side of a socket pair. start_peer forks before the device is opened; f runs in the child. */
int start_peer(int (*f)(int fd));
int end_peer(int status);
void tell(int fd, const void *p, size_t n);
void hear(int fd, void *p, size_t n);

/* What two processes tell each other; meet connects a side to the one of the other process. */
struct card {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};
struct card meet(int fd, struct side *s, struct ibv_mr *mr);
