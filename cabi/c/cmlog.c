/* SPDX-License-Identifier: Apache-2.0 */

/* librdmacm's functions for programs, see log.c. */

#define RJ_UNNAMED
#include "cm.h"

#include "cmlogged.h"
