// SPDX-License-Identifier: Apache-2.0

// Package shm is a device for processes of one host: their queue pairs share memory. A WRITE, READ or
// atomic operation on a region of [verbs.PD.AllocMR] is carried out by the initiator alone, in the
// target's memory, whether the target's process runs, sleeps or is stopped. SENDs, and operations on
// other regions, go through rings in shared memory to the target's process. So do the datagrams of UD
// queue pairs, which can go to multicast groups of the host. There are RC, UC and UD queue pairs, with
// every operation; XRC is [verbs.ErrNotSupported].
//
// Programs open devices with [Open], or by name with package ramjet: shm:127.0.0.1. docs/shm.md lists
// the memory that processes share, and docs/decisions/0023-shm.md has the reasons for its design.
package shm
