// SPDX-License-Identifier: Apache-2.0

// Package valkey is net.Conn and net.Listener in the protocol by which Valkey, the fork of Redis, speaks over RDMA:
// clients in Go for a valkey-server with RDMA, and servers in Go for valkey-cli --rdma, valkey-benchmark --rdma and
// programs on libvalkey. It carries bytes: their meaning is the business of the client or the server above it.
//
//	dialer := valkey.Dialer{Device: dev}
//	client := redis.NewClient(&redis.Options{Addr: "192.0.2.9:6379", Dialer: dialer.DialContext})
//
//	l, err := valkey.Listen(ctx, dev, ":6379")
//
// # The protocol
//
// Valkey's documentation describes it on its page on RDMA. Each side tells the other where a buffer is, by a message of
// 32 bytes ([RegisterXferMemory]), and the other writes there from the front to the end. The last WRITE of its new
// bytes has immediate data: how many bytes are new. When the buffer is full, nothing more can be written until its
// owner registers a buffer again. This package has two halves of a buffer, and registers one while the program reads
// the other.
//
// The protocol has no way to end one direction only, so a Conn has no CloseWrite. The side that closes says so to the
// connection manager. The peer then reads the bytes that had arrived, and io.EOF after them.
//
// Nothing in it counts receives: a side that sends more than the peer has posted waits and tries
// again. Valkey's server posts 1024 and asks for no retries; a Conn retries all the same. iWARP has no
// such retries, and a NIC of iWARP ends the stream of a message that finds no receive (Ramjet's devices
// have it wait): there Options.RecvQueue has to hold all messages that come while the program reads nothing.
//
// # The thread that moves the data
//
// A goroutine that waits in Read or Write polls the completion queue, and then sleeps. Besides, a timer polls every
// Options.KeepAlive, because peers send keep-alives to clients that wait for nothing, and sends one if nothing else was
// sent. A peer that does not acknowledge it breaks the connection. There is no goroutine for a connection.
//
// # Errors
//
// Errors are *net.OpError around the errors that programs of package net look for: os.ErrDeadlineExceeded;
// net.ErrClosed; io.EOF, unwrapped; syscall.EPIPE after the peer has closed; syscall.ECONNRESET after the connection
// broke; syscall.ETIMEDOUT after the peer did not acknowledge; [ErrProtocol] after it sent a message that the protocol
// does not allow.
package valkey
