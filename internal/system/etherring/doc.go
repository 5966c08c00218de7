// SPDX-License-Identifier: Apache-2.0

// Package etherring sends and receives Ethernet frames of one type at one interface, in batches:
// packet(7) with a ring in memory for receiving, and sendmmsg for sending. It is for Linux only.
//
// The kernel copies each frame to the next slot of the ring. It is read there, without a system call,
// and the slot given back. A ring without a free slot loses frames, which the kernel counts.
//
// Docs/decisions/0026-roce-v1.md compares this with the alternatives.
package etherring
