// SPDX-License-Identifier: Apache-2.0

// Package statsocket lets other processes of a user read the state of this one's devices, and reads
// that of others, for `ramjet stat`.
//
// A process with an open device listens at a Unix socket with an abstract name, which has its user, its
// process id and a random number. So nothing is left behind by a process that ends, however it ends,
// and no directory is needed. Abstract names belong to a network namespace: a process in a container with a
// network of its own is seen from within that.
//
// A process that connects is sent a snapshot, see package observe, and nothing is read from it. The kernel
// names its user (SO_PEERCRED): only the same user and root are admitted. In the same way the reader
// checks the user that serves the socket.
//
// One goroutine accepts, and closes connections of other users. It never rests on their account: any user can stand
// in the line of an abstract name, and readers are behind them. Another goroutine answers one reader after the other.
// It waits a second at most for a reader that does not read, and rests after snapshots for many times as long as they
// took. So however many readers there are, they take a few hundredths of a processor in the long run. Both sleep until
// a connection comes.
//
// Any user can also listen at names that look like those of another user's process. Readers wait only for processes
// that are their user's by the kernel's records: in a line that is full they stand only if /proc says that the
// socket is the process's.
//
// At a second socket watchers ask for the last packets of a queue pair, again and again, see observe.Ring. Each has
// a goroutine, and there are eight at most. Packets are kept as long as a watcher asks.
//
// A process whose environment names a collector's socket (RAMJET_STAT_COLLECTOR) connects to that, too, and sends a
// snapshot over each connection when it is asked. So an exporter sees containers without entering their network
// namespaces, and containers need no folder that they can write to, see [Collector].
//
// A forked child of a C program closes its copy of the socket (package forkmark).
package statsocket
