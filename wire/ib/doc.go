// SPDX-License-Identifier: Apache-2.0

// Package ib encodes and decodes packets of the InfiniBand transport: the base
// transport header, the extended headers that follow it, the global route
// header, and the invariant CRC in the forms of RoCEv2 and of InfiniBand
// links. Of these links it has the local route header, the variant CRC and
// flow-control packets, too.
//
// Section numbers are those of the InfiniBand Architecture Specification,
// volume 1 (chapter 7, "Link Layer", and chapter 9, "Transport Layer"), and of its annexes: A14 (extended
// reliable connection), A17 (RoCEv2), A19 (memory placement extensions).
//
// # Shape
//
// Every header is a small struct with the same two verbs:
//
//	func (h *RETH) Decode(b []byte) bool    // false: b is too short; h is untouched
//	func (h RETH) Append(b []byte) []byte
//
// Reserved fields are kept, so every packet that decodes encodes back to the same bytes. [Packet] is
// everything between the UDP header (or the GRH) and the ICRC. The single table of opcodes behind
// [Opcode.Info] tells which headers an opcode has, how long its payload may be, and what class of
// operation it belongs to.
//
// # Ownership
//
// Nothing here allocates, starts goroutines or keeps state. Only the Payload of a decoded [Packet]
// aliases the bytes it was decoded from.
//
// # Limits
//
// Reliable datagram opcodes (section 9.7 with the RDETH) are not decoded: no implementation of them
// is known. RoCEv2 over IPv4 is supported without IP options and without fragmentation, as annex
// A17 requires, and over IPv6 without extension headers.
package ib
