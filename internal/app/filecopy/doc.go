// SPDX-License-Identifier: Apache-2.0

// Package filecopy copies files to a server and from it with RDMA WRITEs: both ends of `ramjet cp`,
// `ramjet ls` and `ramjet serve`.
//
// # Protocol
//
// A client connects by package cm. The private data of its request names the protocol and its
// version. Messages go by SEND, the contents of files by WRITE.
//
// A file is cut into segments of 4 MiB. The client opens a file, and the server grants memory for
// some segments at a time. The client writes each with one WRITE and reports it. The server adds
// the segments in order to a SHA-256 of the whole file, revokes their memory, and grants the next.
// Finally the client sends its own SHA-256 of the whole file. The file gets its name only if the
// two are equal:
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
// A client that fetches a file asks for it by its name, and the two change places: the server opens
// the file, without a name, and writes; the client has, grants and is done. If the server gives the
// file up, it says why after its abort. Directories are listed as far as a message goes, until the
// last of them.
//
// # Resuming
//
// Until a file is complete it is called .NAME.ramjet-partial. The server offers the part that an interrupted copy left
// there, or a file of the right name, size and time, with have: the SHA-256 of its beginning at the end of each
// segment. The client compares them with its own and continues where they differ.
//
// # Memory
//
// On Linux files are mapped at both ends, and data goes from the client's page cache to the
// server's without another copy; a file that is fetched is read into buffers first. A missing page would end the
// program, so only pages that cannot go away are mapped. The client takes a read lease, which keeps others from
// writing or truncating the file before the client has noticed. The server allocates the file's blocks. Both fault
// all pages in before they are used. If one of these fails, and on other systems, files are read and written
// through registered buffers.
package filecopy
