// SPDX-License-Identifier: Apache-2.0

// Package pin keeps memory of registered regions from being paged out, with mlock.
//
// mlock is per process and does not count: one munlock undoes any number of mlocks of a page. Regions
// overlap, if only in the pages at their ends, and several devices may have regions of the same
// memory. So this package counts, for the whole process, how many regions pin each page. It unlocks
// a page when the last of them ends.
//
// Three ways to pin, see driver.RegMode:
//
//   - [Now]: mlock of everything.
//   - [InBackground]: mlock of a chunk, then of the other chunks, one after the other, in a goroutine. Only
//     one chunk at a time is pinned in the background of a process, so that many such regions do not
//     take all its threads.
//   - [OnUse]: mlock2 with MLOCK_ONFAULT, which locks each page as it comes. Linux only.
//
// On Linux all three begin with MLOCK_ONFAULT of the whole range. It counts against the limit of the
// process (RLIMIT_MEMLOCK) and touches no page that is not there. So a region is refused at once, and
// not when half of it is pinned.
//
// The lock of this package covers counting, the mlock2 above and munlock: pinning and unpinning a page
// must not pass each other. Bringing in pages, which takes longest, happens without it.
// No function here may be called with the lock of a device held.
package pin
