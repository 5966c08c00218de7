// SPDX-License-Identifier: Apache-2.0

// Package netio moves UDP datagrams in batches for the RoCEv2 data path.
//
// What a datagram socket costs is counted in socket buffers, not in bytes or
// system calls. So the unit of sending is the [Train]: datagrams of equal size
// to one destination, which Linux takes in one system call and one socket
// buffer (UDP_SEGMENT, "GSO"), and hands to the receiver just so (UDP_GRO).
// The unit of receiving is [Datagrams], which is one such train, or a lone
// datagram.
//
// A [Socket] sends to anybody and receives from anybody. [Connected] ones beside it send to
// one peer each, for which the kernel has less to do.
//
// # Polling and sleeping
//
// Send and Recv never block and never involve the Go scheduler. A program that
// polls is not disturbed: the socket is unknown to Go's network poller, and no
// thread wakes up for a packet, until Wait arms it for one wake-up.
//
// # Ownership
//
// One goroutine at a time may call Recv, and one at a time Wait or
// WaitWritable. Send may be called from several goroutines with a Train each, but for a
// Connected's.
// All other methods may be called from any goroutine at any time, Close
// included.
//
// What Recv returns belongs to the socket and is valid until the next Recv.
// What a Train gathers belongs to the caller and must stay alive and unchanged
// until Send has taken it.
//
// # Systems
//
// Linux has it all. Elsewhere, and with [Options].Plain, the same API stands
// on a net.UDPConn with a goroutine that reads: correct, and slow.
package netio
