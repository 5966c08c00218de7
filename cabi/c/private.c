/* SPDX-License-Identifier: Apache-2.0 */

/* What rdma-core's libraries of hardware drivers, such as libmlx5.so.1, want of libibverbs in
 * private. Programs are linked with them (perftest, pyverbs), but here they have no device:
 * they must load, and whatever they might ask answers that it is not supported. */

#include <errno.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define CALL(name) EXPORT int name(void); EXPORT int name(void) { errno = EOPNOTSUPP; return EOPNOTSUPP; }
#define OBJECT(name) EXPORT void *name(void); EXPORT void *name(void) { errno = EOPNOTSUPP; return NULL; }
#define NOTHING(name) EXPORT void name(void); EXPORT void name(void) { }

NOTHING(verbs_register_driver_34)
NOTHING(ibv_register_driver)
NOTHING(verbs_set_ops)
NOTHING(verbs_uninit_context)
NOTHING(verbs_init_cq)
NOTHING(__verbs_log)
OBJECT(verbs_open_device)
OBJECT(_verbs_init_and_alloc_context)
CALL(__ioctl_final_num_attrs)
CALL(execute_ioctl)
CALL(ibv_cmd_advise_mr)
CALL(ibv_cmd_alloc_dm)
CALL(ibv_cmd_alloc_mw)
CALL(ibv_cmd_alloc_pd)
CALL(ibv_cmd_attach_mcast)
CALL(ibv_cmd_close_xrcd)
CALL(ibv_cmd_create_ah)
CALL(ibv_cmd_create_counters)
CALL(ibv_cmd_create_cq)
CALL(ibv_cmd_create_cq_ex)
CALL(ibv_cmd_create_flow)
CALL(ibv_cmd_create_flow_action_esp)
CALL(ibv_cmd_create_qp)
CALL(ibv_cmd_create_qp_ex)
CALL(ibv_cmd_create_qp_ex2)
CALL(ibv_cmd_create_rwq_ind_table)
CALL(ibv_cmd_create_srq)
CALL(ibv_cmd_create_srq_ex)
CALL(ibv_cmd_create_wq)
CALL(ibv_cmd_dealloc_mw)
CALL(ibv_cmd_dealloc_pd)
CALL(ibv_cmd_dereg_mr)
CALL(ibv_cmd_destroy_ah)
CALL(ibv_cmd_destroy_counters)
CALL(ibv_cmd_destroy_cq)
CALL(ibv_cmd_destroy_flow)
CALL(ibv_cmd_destroy_flow_action)
CALL(ibv_cmd_destroy_qp)
CALL(ibv_cmd_destroy_rwq_ind_table)
CALL(ibv_cmd_destroy_srq)
CALL(ibv_cmd_destroy_wq)
CALL(ibv_cmd_detach_mcast)
CALL(ibv_cmd_free_dm)
CALL(ibv_cmd_get_context)
CALL(ibv_cmd_modify_cq)
CALL(ibv_cmd_modify_flow_action_esp)
CALL(ibv_cmd_modify_qp)
CALL(ibv_cmd_modify_qp_ex)
CALL(ibv_cmd_modify_srq)
CALL(ibv_cmd_modify_wq)
CALL(ibv_cmd_open_qp)
CALL(ibv_cmd_open_xrcd)
CALL(ibv_cmd_poll_cq)
CALL(ibv_cmd_post_recv)
CALL(ibv_cmd_post_send)
CALL(ibv_cmd_post_srq_recv)
CALL(ibv_cmd_query_context)
CALL(ibv_cmd_query_device_any)
CALL(ibv_cmd_query_mr)
CALL(ibv_cmd_query_port)
CALL(ibv_cmd_query_qp)
CALL(ibv_cmd_query_srq)
CALL(ibv_cmd_read_counters)
CALL(ibv_cmd_reg_dm_mr)
CALL(ibv_cmd_reg_dmabuf_mr)
CALL(ibv_cmd_reg_mr)
CALL(ibv_cmd_req_notify_cq)
CALL(ibv_cmd_rereg_mr)
CALL(ibv_cmd_resize_cq)

/* A flag that libraries of drivers set. */
EXPORT extern _Bool verbs_allow_disassociate_destroy;
_Bool verbs_allow_disassociate_destroy;
