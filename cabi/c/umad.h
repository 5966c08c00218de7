/* SPDX-License-Identifier: Apache-2.0 */

/* The declarations that the files of libibumad.so.3 share. Functions return 0 or a positive result, and negative
 * errnos where they fail. */
#ifndef RAMJET_UMAD_H
#define RAMJET_UMAD_H

#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* UTRY calls a function of the Go library: 0 or a negative errno. */
#define UTRY(call) (rj() ? -GO(rj()->call, EDEADLK) : -ENOSYS)

#endif
