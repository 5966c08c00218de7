// SPDX-License-Identifier: Apache-2.0

// Package observe knows which devices and connection managers this process has, and writes their state
// as records for other processes.
//
// The functions that open devices register them. That does not keep them alive: a device that its
// program drops is forgotten.
//
// # The format
//
// A snapshot is a sequence of records behind a header of eight bytes, "ramjetS" and the version. A record is its type,
// a byte, the length of its fields as a uvarint, and the fields in a fixed order. Numbers are uvarints; texts are bytes
// behind their length. Readers skip records of types that they do not know, ignore bytes behind the fields that they
// know, and take fields that are missing for zero, so that writer and reader may be of different versions. Objects
// belong to the device whose record comes before them. The last record is the end: without it the snapshot is cut off.
//
// # Packets
//
// A [Ring] keeps the headers of the last packets of a queue pair while somebody watches it, for a [Capture]. They go
// over a [PacketStream].
//
// The input was written by another process, perhaps one that wants to harm. The decoder bounds its memory,
// and texts that it returns can be shown in a terminal.
package observe
