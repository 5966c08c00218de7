/* SPDX-License-Identifier: Apache-2.0 */

/* Conversions between the structs of the kernel's ABI and the structs of programs. */

#include "ramjet.h"

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

/* Their headers are not installed. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from)
{
	memcpy(to->grh.dgid.raw, from->grh.dgid, sizeof to->grh.dgid);
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from)
{
#define COPY(field) to->field = from->field
	COPY(qp_state), COPY(cur_qp_state), COPY(path_mtu), COPY(path_mig_state), COPY(qkey), COPY(rq_psn), COPY(sq_psn);
	COPY(dest_qp_num), COPY(qp_access_flags), COPY(pkey_index), COPY(alt_pkey_index), COPY(en_sqd_async_notify);
	COPY(sq_draining), COPY(max_rd_atomic), COPY(max_dest_rd_atomic), COPY(min_rnr_timer), COPY(port_num), COPY(timeout);
	COPY(retry_cnt), COPY(rnr_retry), COPY(alt_port_num), COPY(alt_timeout);
#undef COPY
	to->cap = (struct ibv_qp_cap){ from->max_send_wr, from->max_recv_wr, from->max_send_sge, from->max_recv_sge,
		from->max_inline_data };
	ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
	ibv_copy_ah_attr_from_kern(&to->alt_ah_attr, &from->alt_ah_attr);
}

/* COPY_PATH copies the fields that have the same name in both. */
#define COPY_PATH(to, from)                                                                                   \
	do {                                                                                                  \
		(to)->dlid = (from)->dlid, (to)->slid = (from)->slid, (to)->raw_traffic = (from)->raw_traffic; \
		(to)->flow_label = (from)->flow_label, (to)->hop_limit = (from)->hop_limit;                   \
		(to)->traffic_class = (from)->traffic_class, (to)->reversible = (from)->reversible;           \
		(to)->numb_path = (from)->numb_path, (to)->pkey = (from)->pkey, (to)->sl = (from)->sl;        \
		(to)->mtu_selector = (from)->mtu_selector, (to)->mtu = (from)->mtu;                           \
		(to)->rate_selector = (from)->rate_selector, (to)->rate = (from)->rate;                       \
		(to)->packet_life_time_selector = (from)->packet_life_time_selector;                          \
		(to)->packet_life_time = (from)->packet_life_time, (to)->preference = (from)->preference;     \
	} while (0)

EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from)
{
	memcpy(to->dgid.raw, from->dgid, sizeof to->dgid);
	memcpy(to->sgid.raw, from->sgid, sizeof to->sgid);
	COPY_PATH(to, from);
}

EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from)
{
	memcpy(to->dgid, from->dgid.raw, sizeof to->dgid);
	memcpy(to->sgid, from->sgid.raw, sizeof to->sgid);
	COPY_PATH(to, from);
}
