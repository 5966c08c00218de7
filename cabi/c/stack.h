/* SPDX-License-Identifier: Apache-2.0 */

/* Where the program is, for the checker. */
#ifndef RAMJET_STACK_H
#define RAMJET_STACK_H

#include <stdint.h>

enum { RJ_FRAMES = 16 };

extern int rj_check_on; /* the environment asks for the checker */

/* rj_capture finds the return addresses of this thread, the innermost first. */
void rj_capture(void);

/* rj_stack copies the return addresses that rj_capture has found on this thread last. It returns their number. */
int rj_stack(uintptr_t *pcs, int room);

/* rj_discard frees an object that a program has destroyed. With the checker it does so later: until then the program can
 * still name it, and no other object has its address. */
void rj_discard(void *object);

#endif
