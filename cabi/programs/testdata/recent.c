/* SPDX-License-Identifier: Apache-2.0 */

/* Calls that came after rdma-core 44, by declarations of this program's own. */

#include "kit.h"

#include <rdma/rdma_cma.h>

struct ibv_buf;
struct mr_init {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
enum { WITH_IOVA = 1, WITH_ADDR = 2, WITH_FD = 4, WITH_BUF = 32 };
enum { EVENT_ADDRINFO_RESOLVED = 16, EVENT_ADDRINFO_ERROR, EVENT_USER };

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct mr_init *init);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
void *ibv_alloc_dmah(struct ibv_context *context, void *attr);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

static void buffers(void)
{
	struct mr_init init = { .length = 100, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = WITH_ADDR | WITH_IOVA, .iova = 4096 };
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	char *p;

	CHECK((p = ibv_alloc_buf(pd, 5000, &buf)) && !((uintptr_t)p % 4096));
	memset(p, 1, 5000);
	CHECK((mr = ibv_reg_buf_mr(pd, buf, p + 10, 4990, IBV_ACCESS_LOCAL_WRITE)) && mr->addr == p + 10 && !ibv_dereg_mr(mr));
	CHECK(!ibv_reg_buf_mr(pd, buf, p + 10, 4991, 0) && errno == EINVAL);
	CHECK(!ibv_reg_buf_mr(pd, buf, p - 1, 1, 0) && errno == EINVAL);
	CHECK(ibv_export_buf_dmabuf_fd(buf) == -1 && errno == ENODATA);
	init.addr = p;
	CHECK((mr = ibv_reg_mr_ex(pd, &init)) && mr->length == 100 && !ibv_dereg_mr(mr));
	init.comp_mask |= WITH_FD;
	CHECK(!ibv_reg_mr_ex(pd, &init) && errno == EOPNOTSUPP);
	init.comp_mask = WITH_IOVA;
	CHECK(!ibv_reg_mr_ex(pd, &init) && errno == EINVAL);
	ibv_free_buf(buf);
	CHECK(!ibv_alloc_dmah(context, NULL) && errno == EOPNOTSUPP);
}

static void speed(void)
{
	uint64_t speed = 0;

	CHECK(!ibv_query_port_speed(context, 1, &speed) && speed > 0);
	errno = 0;
	CHECK(ibv_query_port_speed(context, 2, &speed) == errno && errno);
}

static void events(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo *found = NULL, hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_write_cm_event(id, EVENT_USER, -3, 1ull << 40) && !rdma_get_cm_event(channel, &event));
	CHECK((int)event->event == EVENT_USER && event->id == id && event->status == -3 && *(uint64_t *)&event->param == 1ull << 40);
	CHECK(!strcmp(rdma_event_str(event->event), "RDMA_CM_EVENT_USER") && !rdma_ack_cm_event(event));
	CHECK(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0) == -1 && errno == EINVAL);

	CHECK(rdma_query_addrinfo(id, &found) == -1 && errno == ENOENT);
	CHECK(!rdma_resolve_addrinfo(id, "192.0.2.1", "7", &hints) && !rdma_get_cm_event(channel, &event));
	CHECK((int)event->event == EVENT_ADDRINFO_RESOLVED && !event->status && !rdma_ack_cm_event(event));
	CHECK(!rdma_query_addrinfo(id, &found) && found->ai_dst_addr && found->ai_family == AF_INET);
	rdma_freeaddrinfo(found);
	CHECK(!rdma_resolve_addrinfo(id, "no number", "7", &hints) && !rdma_get_cm_event(channel, &event));
	CHECK((int)event->event == EVENT_ADDRINFO_ERROR && event->status < 0 && !rdma_ack_cm_event(event));
	CHECK(rdma_query_addrinfo(id, &found) == -1 && errno == ENOENT);

	CHECK(!rdma_write_cm_event(id, EVENT_USER, 0, 0) && !rdma_destroy_id(id)); /* with an event that nobody has taken */
	rdma_destroy_event_channel(channel);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(rdma_resolve_addrinfo(id, "no number", "7", &hints) == -1 && errno == EADDRNOTAVAIL);
	CHECK(!rdma_resolve_addrinfo(id, "192.0.2.1", "7", &hints) && !rdma_destroy_id(id));
}

int main(void)
{
	alarm(170);
	open_device();
	buffers();
	speed();
	events();
	return 0;
}
