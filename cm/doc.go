// SPDX-License-Identifier: Apache-2.0

// Package cm connects queue pairs by address and port: the connection manager, in the
// shape of librdmacm. Its peers are other programs on this package, and programs on
// librdmacm over any RoCEv2 or iWARP device.
//
// # Two layers
//
// Most programs need [Dial], [Listen] and [Conn]: a connection with its queue pair and
// completion queue ready, that sends, receives, reads and writes.
//
// Beneath is what librdmacm has: an [ID] (rdma_cm_id) is bound, resolved, connected,
// listened on; what happens to it arrives as an [Event] at an [EventChannel]. docs/cm.md
// lists the calls of librdmacm with their names here.
//
// # Events and ownership
//
// An Event is the receiver's: nothing points back at it, so there is nothing to
// acknowledge. [ID.Close] takes the id's events that nobody has fetched out of the channel,
// [ID.Migrate] moves them to the new one in order, and neither waits for anybody. An event
// that was fetched before may still name an id that is closed by now: calls on that id then
// return ErrClosed.
//
// # The manager
//
// All ids of one device share one manager, which runs from the first of them until the
// device is closed: it owns the device's general services interface, and answers peers that
// have not heard of a connection's end after all ids are closed. What protocol it speaks
// depends on the device: management datagrams on QP1 for RoCEv2 and InfiniBand, and for iWARP the
// set-up of MPA on a TCP connection, whose port is the connection's.
//
// # Errors
//
// Calls return a [*verbs.OpError] whose text names the address. A connection that the peer
// turned down is a [*RejectError]; one that it did not answer, [ErrTimeout]; one that has
// ended, [ErrDisconnected]. A context that ends is returned as ctx.Err() at once.
package cm
