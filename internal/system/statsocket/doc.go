// SPDX-License-Identifier: Apache-2.0

// Package statsocket lets other processes of a user read the state of this one's devices, and reads
// that of others: what `ramjet stat` shows.
//
// A process with an open device listens at a Unix socket with an abstract name, which has its user, its
// process id and a random number. So nothing is left behind by a process that ends, however it ends,
// and no directory is needed. Abstract names belong to a network namespace: a process in a container with a
// network of its own is seen from within that.
//
// A process that connects is sent a snapshot, see package observe, and nothing is read from it. The kernel
// says whose it is (SO_PEERCRED): anybody but the same user and root is turned away. In the same way the
// reader checks who serves the socket.
//
// One goroutine serves one reader after the other. It sleeps in accept until one comes, waits a second at
// most for one that does not read, and rests after snapshots for many times as long as they took. So
// however many readers there are, they take a few hundredths of a processor in the long run. Users who are turned away, too,
// cost it little: it rests after each.
//
// At a second socket watchers ask for the last packets of a queue pair, again and again, see observe.Ring. Each has
// a goroutine, and there are eight at most. Packets are kept as long as a watcher asks.
//
// A forked child of a C program closes its copy of the socket (package forkmark).
package statsocket
