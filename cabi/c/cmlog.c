/* SPDX-License-Identifier: Apache-2.0 */

/* What programs call of librdmacm, see log.c. */

#define RJ_UNNAMED
#include "cm.h"

#include "cmlogged.h"
