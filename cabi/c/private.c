/* SPDX-License-Identifier: Apache-2.0 */

/* The private functions of libibverbs that rdma-core's libraries of hardware drivers need, such as
 * libmlx5.so.1. Programs are linked with them (perftest, pyverbs), but here they have no device:
 * they must load, and every function answers that it is not supported.
 *
 * A driver's library asks for the symbols in the version of the release that it came with. All of
 * them are here side by side, as none of them does anything. */

#include "ramjet.h"

/* The assembler gives the stand-ins their names, and the linker's script hides their own. */
#define STAND_IN(result) EXPORT __attribute__((used)) result

STAND_IN(int) rj_private_call(void) { return errno = EOPNOTSUPP; }
STAND_IN(void *) rj_private_object(void) { return rj_fail(NULL, EOPNOTSUPP); }
STAND_IN(void) rj_private_nothing(void) { }

/* A flag that drivers set. */
EXPORT _Bool rj_private_allow_disassociate_destroy;

/* RoCE v1 and InfiniBand are 0, RoCE v2 is 1. */
STAND_IN(int) rj_private_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	struct ibv_gid_entry e;
	int err = TRY(query_gid(rj_context(context)->handle, port, index, &e));

	if (!err)
		*type = e.gid_type == IBV_GID_TYPE_ROCE_V2;
	return rj_failed(err);
}

STAND_IN(const char *) rj_private_wr_opcode_str(enum ibv_wr_opcode op)
{
	static const char *const names[] = { "IBV_WR_RDMA_WRITE", "IBV_WR_RDMA_WRITE_WITH_IMM", "IBV_WR_SEND", "IBV_WR_SEND_WITH_IMM",
		"IBV_WR_RDMA_READ", "IBV_WR_ATOMIC_CMP_AND_SWP", "IBV_WR_ATOMIC_FETCH_AND_ADD", "IBV_WR_LOCAL_INV", "IBV_WR_BIND_MW",
		"IBV_WR_SEND_WITH_INV", "IBV_WR_TSO", "IBV_WR_DRIVER1", NULL, NULL, "IBV_WR_FLUSH", "IBV_WR_ATOMIC_WRITE" };

	return (unsigned)op < sizeof names / sizeof *names && names[op] ? names[op] : "unknown";
}

#define SYMBOL(stand_in, name, at, release)                                              \
	__asm__(".set rj_" #release "_" #name ", rj_private_" #stand_in "\n"             \
		".globl rj_" #release "_" #name "\n"                                     \
		".symver rj_" #release "_" #name ", " #name at "IBVERBS_PRIVATE_" #release);

/* The releases with private versions of their own, from 22 on. Linkers need one of them as the default. */
#define PRIVATE(stand_in, name)             \
	SYMBOL(stand_in, name, "@", 22)     \
	SYMBOL(stand_in, name, "@", 25)     \
	SYMBOL(stand_in, name, "@", 33)     \
	SYMBOL(stand_in, name, "@@", 34)    \
	SYMBOL(stand_in, name, "@", 57)     \
	SYMBOL(stand_in, name, "@", 59)     \
	SYMBOL(stand_in, name, "@", 64)     \
	SYMBOL(stand_in, name, "@", 65)
#include "private.h"

SYMBOL(nothing, verbs_register_driver_22, "@", 22)
SYMBOL(nothing, verbs_register_driver_25, "@", 25)
SYMBOL(nothing, verbs_register_driver_33, "@", 33)
SYMBOL(nothing, verbs_register_driver_34, "@@", 34)
SYMBOL(nothing, verbs_register_driver_57, "@", 57)
SYMBOL(nothing, verbs_register_driver_59, "@", 59)
SYMBOL(nothing, verbs_register_driver_64, "@", 64)
SYMBOL(nothing, verbs_register_driver_65, "@", 65)

/* Older drivers use a symbol of the public version. */
EXPORT void ibv_register_driver(void);
EXPORT void ibv_register_driver(void) { }
