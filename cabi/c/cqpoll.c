/* SPDX-License-Identifier: Apache-2.0 */

/* The extended completion queue: ibv_start_poll, and reading the fields of a completion. */

#include "ramjet.h"

#include <time.h>

static int take(struct rj_cq *q)
{
	const struct rj_calls *r = rj();
	int n = r ? GO(r->poll_one(q->handle, &q->wc, &q->timestamp), -EDEADLK) : -EIO;

	if (n <= 0)
		return n ? -n : ENOENT;
	q->wall_known = 0;
	q->cq.wr_id = q->wc.wr_id;
	q->cq.status = q->wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct rj_cq *q = (struct rj_cq *)cq;
	int err;

	if (attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&q->polling);
	err = take(q);
	if (err)
		pthread_mutex_unlock(&q->polling);
	return err;
}

static int next_poll(struct ibv_cq_ex *cq) { return take((struct rj_cq *)cq); }
static void end_poll(struct ibv_cq_ex *cq) { pthread_mutex_unlock(&((struct rj_cq *)cq)->polling); }

#define READ(type, name, field) \
	static type name(struct ibv_cq_ex *cq) { return ((struct rj_cq *)cq)->field; }
READ(enum ibv_wc_opcode, read_opcode, wc.opcode)
READ(uint32_t, read_vendor_err, wc.vendor_err)
READ(uint32_t, read_byte_len, wc.byte_len)
READ(__be32, read_imm_data, wc.imm_data)
READ(uint32_t, read_qp_num, wc.qp_num)
READ(uint32_t, read_src_qp, wc.src_qp)
READ(unsigned int, read_wc_flags, wc.wc_flags)
READ(uint32_t, read_slid, wc.slid)
READ(uint8_t, read_sl, wc.sl)
READ(uint8_t, read_dlid_path_bits, wc.dlid_path_bits)
READ(uint64_t, read_timestamp, timestamp)

/* The two clocks cannot be read at once: the wall clock is read between two readings of the
 * other, and their distance lies between those to the two readings, however long this thread stood
 * still. The distance is kept while that, and a millisecond by which clocks drift, explains it.
 * Times of completions go backwards only where the wall clock was set back. */
static uint64_t read_wallclock(struct ibv_cq_ex *cq)
{
	const int64_t millisecond = 1000000, second = 1000000000;
	struct rj_cq *q = (struct rj_cq *)cq;
	uint64_t device = rj_context(q->cq.context)->handle, t;
	int64_t wall, most, least, wrong;
	struct timespec now;

	if (q->wall_known)
		return q->wall_time;
	most = -(int64_t)GO(rj()->clock(device), 0);
	clock_gettime(CLOCK_REALTIME, &now);
	least = -(int64_t)GO(rj()->clock(device), 0);
	wall = now.tv_sec * second + now.tv_nsec;
	most += wall;
	least += wall;
	wrong = q->wall_distance > most ? q->wall_distance - most :
		q->wall_distance < least ? least - q->wall_distance : 0;
	if (wrong > second)
		q->wall_time = 0;
	if (wrong > millisecond)
		q->wall_distance = least + (most - least) / 2;
	t = q->timestamp + (uint64_t)q->wall_distance;
	if (t > q->wall_time)
		q->wall_time = t;
	q->wall_known = 1;
	return q->wall_time;
}

void rj_fill_cq(struct rj_cq *q, uint64_t fields)
{
	struct ibv_cq_ex *c = &q->cq;

	c->start_poll = start_poll;
	c->next_poll = next_poll;
	c->end_poll = end_poll;
	c->read_opcode = read_opcode;
	c->read_vendor_err = read_vendor_err;
	c->read_wc_flags = read_wc_flags;
	if (fields & IBV_WC_EX_WITH_BYTE_LEN)
		c->read_byte_len = read_byte_len;
	if (fields & IBV_WC_EX_WITH_IMM)
		c->read_imm_data = read_imm_data;
	if (fields & IBV_WC_EX_WITH_QP_NUM)
		c->read_qp_num = read_qp_num;
	if (fields & IBV_WC_EX_WITH_SRC_QP)
		c->read_src_qp = read_src_qp;
	if (fields & IBV_WC_EX_WITH_SLID)
		c->read_slid = read_slid;
	if (fields & IBV_WC_EX_WITH_SL)
		c->read_sl = read_sl;
	if (fields & IBV_WC_EX_WITH_DLID_PATH_BITS)
		c->read_dlid_path_bits = read_dlid_path_bits;
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		c->read_completion_ts = read_timestamp;
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		c->read_completion_wallclock_ns = read_wallclock;
}
