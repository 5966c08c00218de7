// SPDX-License-Identifier: Apache-2.0

// Package collect takes the state of processes' devices that cannot be read from outside, and serves it to Prometheus.
// Examples are processes in containers: their sockets are of another network namespace.
//
// A [Collector] listens on a socket in a folder of each container. The container has the folder, read-only, and a
// variable of its environment, [Variable], names the socket. The folder to which a process came identifies its
// container, so none can pass for another's. The memory that one container can make the collector hold is bounded: 256
// processes, 2 MiB of each.
//
// Programs need nothing for it: devices come by themselves when they are opened. It works on Linux.
package collect
