/* SPDX-License-Identifier: Apache-2.0 */

/* The memory of regions, see regions.c. */
#ifndef RAMJET_REGIONS_H
#define RAMJET_REGIONS_H

#include <stddef.h>
#include <stdint.h>

void rj_region_add(void *addr, size_t length, uint64_t handle);
void rj_region_remove(uint64_t handle);

/* rj_returned looks for regions on this thread's stack below a frame that runs: their functions have returned. */
void rj_returned(uintptr_t frame);

/* rj_on_stack reports whether memory is of a region on a thread's stack. */
int rj_on_stack(uintptr_t start, uintptr_t end);

/* rj_freed reports regions whose memory the program gives up. how is its call. */
void rj_freed(const void *memory, size_t length, const char *how);

/* rj_ours reports whether this thread runs the libraries' code, not the program's. rj_be_ours is called by threads that run
 * no other. */
int rj_ours(void);
void rj_be_ours(void);

/* All regions are between these addresses. */
extern uintptr_t rj_regions_low, rj_regions_high;

#endif
