// SPDX-License-Identifier: Apache-2.0

// Package netio moves UDP datagrams in batches for the RoCEv2 data path.
//
// The cost of a datagram socket is per socket buffer, not per byte or system call. So the unit of
// sending is the [Train]: datagrams of equal size to one destination, which Linux takes in one
// system call and one socket buffer (UDP_SEGMENT, "GSO"), and delivers to the receiver in the same
// form (UDP_GRO). The unit of receiving is [Datagrams]: one such train, or a lone datagram.
//
// A [Socket] sends to anybody and receives from anybody. [Connected] sockets beside it send to one
// peer each, with less work for the kernel.
//
// # Polling and sleeping
//
// Send and Recv never block and never involve the Go scheduler. A program that polls is not
// disturbed: Go's network poller does not know the socket, and no thread wakes up for a packet
// unless it is in Wait.
//
// # Ownership
//
// Only one goroutine at a time may call Recv, and one at a time Wait or WaitWritable. Several
// goroutines may call Send with a Train each, except on a Connected. All other methods, including
// Close, may be called from any goroutine at any time.
//
// The memory that Recv returns belongs to the socket and is valid until the next Recv. The memory that a
// Train gathers belongs to the caller and must stay alive and unchanged until Send has taken it.
//
// # Systems
//
// Linux supports everything. Elsewhere, and with [Options].Plain, the same API is built on a
// net.UDPConn with a goroutine that reads: correct, but slow.
package netio
