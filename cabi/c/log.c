/* SPDX-License-Identifier: Apache-2.0 */

/* libibverbs's functions for programs, see logged.h: each function logs its call, if the environment asks for that. */

#define RJ_UNNAMED
#include "ramjet.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#include "logged.h"
