// SPDX-License-Identifier: Apache-2.0

// Package filecopy copies files to a server with RDMA WRITEs: both ends of `ramjet cp` and
// `ramjet serve`.
//
// # Protocol
//
// A client connects by package cm; the private data of its request names the protocol and
// its version. Messages go by SEND, the contents of files by WRITE.
//
// A file is cut into segments of 4 MiB. The client opens a file, the server grants memory
// for some segments at a time, the client writes each with one WRITE and says so. The server
// adds the segments in order to a SHA-256 of the whole file, takes their memory away from the
// client, and grants the next. In the end the client tells its own SHA-256 of the whole
// file, and only if both are the same does the file get its name:
//
//	client                       server
//	open name, size, …    →
//	                      ←      have: how far the file is there already
//	start at segment k    →                                     if it had anything
//	                      ←      grant segment, address, key    for each segment
//	WRITE, written        →
//	finish SHA-256        →
//	                      ←      done
//
// # Resuming
//
// Until a file is complete it is called .NAME.ramjet-partial. What an interrupted copy left
// there, or a file of the right name, size and time, the server offers with have: the
// SHA-256 of its beginning at the end of each segment. The client compares them with its own
// and goes on where they differ.
//
// # Memory
//
// On Linux files are mapped at both ends, and data goes from the client's page cache to the
// server's without another copy. A page that cannot be had ends a program, so nothing is
// mapped that could go away: the client takes a read lease, which keeps others from writing
// or truncating the file without the client's noticing first; the server allocates the
// file's blocks; both fault all pages in before they are used. Where one of these cannot be
// had, and on other systems, files are read and written through registered buffers.
package filecopy
