// SPDX-License-Identifier: Apache-2.0

// Package cm connects queue pairs by address and port: the connection manager, in the
// shape of librdmacm. Its peers are other programs on this package, and programs on
// librdmacm over any RoCEv2 or iWARP device.
//
// # Two layers
//
// Most programs need [Dial], [Listen] and [Conn]: a connection with its queue pair and
// completion queue ready, that sends, receives, reads and writes. A protocol that has connections of
// its own above these accepts them with an [Acceptor].
//
// Beneath are librdmacm's objects: an [ID] (rdma_cm_id) is bound, resolved, connected, listened on.
// Its events arrive as an [Event] at an [EventChannel]. docs/cm.md lists the calls of
// librdmacm with their names here.
//
// # Events and ownership
//
// The receiver owns an Event: nothing refers back to it, so there is nothing to acknowledge.
// [ID.Close] takes the id's events that nobody has fetched out of the channel, [ID.Migrate] moves
// them to the new one in order, and neither waits for anybody. An event that was fetched before may
// still name an id that is closed by now: calls on that id then return ErrClosed.
//
// # The manager
//
// All ids of one device share one manager, which runs from the first of them until the device is
// closed. It has the device's queue pair 1, and answers peers that have not heard of the end of a
// connection after all ids are closed. An open id keeps its device alive. The manager does not: a
// device without ids that a program drops is freed.
//
// The device chooses which protocol the manager speaks (driver.Connector): management
// datagrams on queue pair 1 for RoCEv2, and for iWARP the set-up of MPA on a TCP connection, whose
// port is the connection's. The protocol also resolves addresses, routes and groups, which may take
// a while. Over IP the answers are known at once.
//
// # Errors
//
// Calls return a [*RejectError] if the peer rejected the connection, and otherwise a [*verbs.OpError]
// whose text names the address. errors.Is finds [ErrTimeout] in it if the peer did not answer, and
// [ErrDisconnected] if the connection has ended. When a context ends, calls return ctx.Err() at once.
package cm
