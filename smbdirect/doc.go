// SPDX-License-Identifier: Apache-2.0

// Package smbdirect is SMB Direct (MS-SMBD 1.0), the transport of SMB over RDMA, both sides: connections that carry
// messages, and memory that a peer reads and writes by RDMA. It runs on any device of Ramjet. The meaning of messages
// is the business of the SMB client or server above it.
//
//	c, err := smbdirect.Dial(ctx, dev, "192.0.2.9", smbdirect.Options{})
//	err = c.WriteMessage(ctx, request)
//	response, err := c.ReadMessage(ctx)
//
//	l, err := smbdirect.Listen(ctx, dev, ":445", smbdirect.ListenOptions{})
//	c, err := l.Accept(ctx)
//
// [Conn.NetConn] is a net.Conn in the framing of SMB over TCP, for clients and servers that know nothing of RDMA. That
// of package channel moves their data through the RDMA channel. Package gateway takes clients for a server over TCP.
//
// # The RDMA channel
//
// A client exposes memory to its server: [Conn.AllocMemory], [Memory.Expose]. The [wire.Descriptor] of it goes into
// an SMB2 READ or WRITE request. The server carries the request out by [Conn.WriteRemote] or [Conn.ReadRemote], and
// may end the exposure with its response, by [Conn.WriteMessageInvalidate].
//
// # Credits
//
// A side sends only when its peer has granted it credits, one for each message that the peer has posted a receive for.
// The last credit is kept for a message that grants some. A Conn whose program does not read grants none: it holds at
// most twice MaxFragmentedSize, and the data of the receives that were granted before.
//
// # Errors
//
// Errors are *net.OpError. Within them are [ErrProtocol] after the peer has broken the protocol, io.EOF after it has
// closed the connection, net.ErrClosed after Close, and syscall.ECONNRESET and syscall.ETIMEDOUT after the connection
// broke or the peer fell silent.
//
// # Files
//
//   - flow.go, reassembly.go, idle.go, negotiation.go: the protocol's state, without clock, lock or device
//   - endpoint.go: queue pair and memory of a connection
//   - conn.go, send.go, receive.go, timer.go: connections
//   - memory.go: the RDMA channel
//   - dial.go, listener.go, setup.go: how connections come about
//   - netconn.go, deadline.go: net.Conn
//   - options.go, errors.go
package smbdirect
