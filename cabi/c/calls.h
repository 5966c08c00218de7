/* SPDX-License-Identifier: Apache-2.0 */

/* The functions of the Go library that the C libraries call: CALL(result, name, (parameters)). Results of
 * type int are 0 or an errno unless the line says otherwise. Objects are handles, never
 * pointers into Go's memory. */

/* devices */
CALL(int, devices, (struct rj_device_info *list, int room)) /* the number of devices */
CALL(int, board_id, (char *name, char *buf, size_t size)) /* the length; -1: there is no such device */
CALL(int, open, (char *name, uint64_t *context, int *async_fd))
CALL(int, close, (uint64_t context, int *left))
CALL(int, next_async, (uint64_t context, struct ibv_async_event *event)) /* 1: there was one, which is counted */
CALL(int, query_device, (uint64_t context, struct ibv_device_attr_ex *attr))
CALL(int, query_port, (uint64_t context, int port, struct ibv_port_attr *attr))
CALL(int, query_speed, (uint64_t context, int port, uint64_t *speed)) /* 100 Mbit/s */
CALL(int, query_gid, (uint64_t context, int port, int index, struct ibv_gid_entry *entry))
CALL(int, query_pkey, (uint64_t context, int port, int index, uint16_t *pkey))
CALL(int, resolve_mac, (uint64_t context, struct ibv_ah_attr *attr, uint8_t *mac))
CALL(uint64_t, clock, (uint64_t context)) /* nanoseconds */

CALL(int, leave, (void)) /* the process ends: the status that the checker wants it to end with instead of 0 */

/* the log of calls: its number, or 0 if it is not logged; and its end */
CALL(uint64_t, log_begin, (const char *name, const uint64_t *args, int n))
CALL(void, log_end, (uint64_t call, uint64_t result, int err))

/* the checker. Threads are numbers that C gives them. */
CALL(void, check_with, (int (*stack)(uintptr_t *pcs, int room))) /* before all others: where a thread is */
CALL(void, check_protect, (int (*protect)(uintptr_t low, uintptr_t high), int (*release)(int guard, struct rj_touch *touch)))
	/* how pages are protected. A guard of 0 is none; release says whether the program has touched the memory */
CALL(int, check_begin, (const char *name, const uint64_t *args, int n, uintptr_t thread, const uintptr_t *pcs, int npcs,
	uint64_t *result)) /* 1: the call is refused, with this result and EINVAL */
CALL(void, check_end, (uintptr_t thread, uint64_t result))
CALL(void, check_unacknowledged, (void *object)) /* which waits for events that are not acknowledged */
CALL(void, check_freed, (uint64_t mr, uintptr_t start, uintptr_t end, const char *how)) /* memory of a region is gone */
CALL(void, check_wait, (uint64_t channel, int begins)) /* a thread waits for an event, or no more, without one */

/* memory */
CALL(int, alloc_pd, (uint64_t context, uint64_t *pd))
CALL(int, dealloc_pd, (uint64_t pd))
CALL(int, reg_mr, (uint64_t pd, void *addr, size_t length, uint64_t iova, unsigned int access, struct rj_mr *mr))
CALL(int, rereg_mr, (struct rj_mr *mr, int flags, uint64_t pd, void *addr, size_t length, unsigned int access))
CALL(int, dereg_mr, (uint64_t mr))
CALL(int, advise_mr, (int advice, struct ibv_sge *list, int n))
CALL(int, alloc_mw, (uint64_t pd, int type, struct rj_mw *mw))
CALL(int, bind_mw, (uint64_t qp, struct rj_mw *mw, struct ibv_mw_bind *bind))
CALL(int, dealloc_mw, (uint64_t mw))

/* completions */
CALL(int, create_channel, (uint64_t context, uint64_t *channel, int *fd))
CALL(void *, next_completion, (uint64_t channel)) /* the struct ibv_cq, its event counted, or NULL */
CALL(void *, await_completion, (uint64_t channel, struct rj_wait *how)) /* so, too; NULL: the thread is to sleep, as how says, and to call again */
CALL(void, leave_completion, (uint64_t channel)) /* in place of that call */
CALL(int, destroy_channel, (uint64_t channel))
CALL(int, create_cq, (uint64_t context, int cqe, uint64_t channel, int timed, struct rj_cq *cq)) /* timed: completions carry timestamps */
CALL(int, resize_cq, (struct rj_cq *cq, int cqe))
CALL(int, destroy_cq, (uint64_t cq))
CALL(int, req_notify, (uint64_t cq, int solicited_only))
CALL(int, poll, (uint64_t cq, int room, struct ibv_wc *wc)) /* how many there were, or negative */
CALL(int, poll_one, (uint64_t cq, struct ibv_wc *wc, uint64_t *timestamp)) /* 1: there was one */

/* queues */
CALL(int, open_xrcd, (uint64_t context, int fd, int oflags, uint64_t *xrcd))
CALL(int, close_xrcd, (uint64_t xrcd))
CALL(int, create_srq, (uint64_t pd, struct ibv_srq_attr *attr, uint64_t xrcd, uint64_t cq, struct rj_srq *srq))
CALL(int, modify_srq, (uint64_t srq, struct ibv_srq_attr *attr, int mask))
CALL(int, query_srq, (uint64_t srq, struct ibv_srq_attr *attr))
CALL(int, destroy_srq, (uint64_t srq))
CALL(int, post_srq_recv, (uint64_t srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad))
CALL(int, create_qp, (uint64_t pd, uint64_t xrcd, struct ibv_qp_init_attr_ex *attr, struct rj_qp *qp))
CALL(int, modify_qp, (struct rj_qp *qp, struct ibv_qp_attr *attr, int mask))
CALL(int, query_qp, (struct rj_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init))
CALL(int, destroy_qp, (uint64_t qp))
CALL(int, post_send, (uint64_t qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad))
CALL(int, post_recv, (uint64_t qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad))
CALL(int, attach_mcast, (uint64_t qp, uint8_t *gid, int lid))
CALL(int, detach_mcast, (uint64_t qp, uint8_t *gid, int lid))
CALL(int, create_ah, (uint64_t pd, struct ibv_ah_attr *attr, uint64_t *ah))
CALL(int, destroy_ah, (uint64_t ah))
