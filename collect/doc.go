// SPDX-License-Identifier: Apache-2.0

// Package collect takes what processes say of their devices, where nobody can look at them from outside, and serves it
// to Prometheus. Containers are such processes: their sockets are of another network namespace.
//
// A [Collector] listens on a socket in a folder of each container. The container has the folder, read-only, and a
// variable of its environment, [Variable], names the socket. Whose a process is follows from the folder to which it
// came, so none can pass for another's. What one container can make the collector hold is bounded: 256 processes, 2 MiB
// of each.
//
// Programs need nothing for it: devices come by themselves when they are opened. It works on Linux.
package collect
