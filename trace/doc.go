// SPDX-License-Identifier: Apache-2.0

// Package trace records what went over the wire as a pcapng file that
// Wireshark, tshark and tcpdump read.
//
// A user-space transport sees UDP payloads, not packets, so a [Writer] is given
// the payload and the facts of its IP header and puts the headers back: with
// the identification, the don't-fragment bit and the addresses of the packet on
// the wire, the ICRC inside the payload verifies over the recorded bytes. The
// link type is raw IP, so no Ethernet header has to be made up.
//
// Recording never waits for the disk. Packets are copied into memory and a
// goroutine writes them behind; when it falls further behind than the memory a
// Writer may hold (16 MiB), packets are left out, counted, and the gap is noted
// in the file itself, on the next packet and in the statistics at its end. A
// program that must have every packet calls [Writer.Flush] in between.
//
// The format is pcapng, draft-ietf-opsawg-pcapng: one section, one interface,
// timestamps in nanoseconds.
package trace
