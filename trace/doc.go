// SPDX-License-Identifier: Apache-2.0

// Package trace records packets on the wire as a pcapng file that
// Wireshark, tshark and tcpdump read.
//
// A user-space transport sees UDP payloads, not packets. So a [Writer] gets the payload and the
// facts of its IP header, and rebuilds the headers. With the identification, the don't-fragment bit
// and the addresses of the packet on the wire, the ICRC inside the payload verifies over the
// recorded bytes. The link type is raw IP, so no Ethernet header has to be invented. A device that
// sees frames records frames: they are of an interface of their own in the file.
//
// The bytes of a stream are recorded as a [Stream]: as synthetic TCP segments of the bytes that the
// device read and wrote.
//
// Recording never waits for the disk. Packets are copied into memory, and a goroutine writes them.
// When it falls further behind than the memory a Writer may use (16 MiB), packets are dropped and
// counted. The gap is noted in the file itself, on the next packet and in the statistics at its
// end. A program that needs every packet calls [Writer.Flush] in between.
//
// InfiniBand packets are records of the ERF format, which has a type for them: a link type of their own
// exists (247), but tshark 4.0 does not read it.
//
// The format is pcapng, draft-ietf-opsawg-pcapng: one section, one interface for IP and, if there are any,
// one for Ethernet frames and one for InfiniBand packets, timestamps in nanoseconds.
package trace
