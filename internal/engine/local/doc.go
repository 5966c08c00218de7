// SPDX-License-Identifier: Apache-2.0

// Package local is the engine of queue pairs between processes of one host, which share memory. It is
// pure: it has no goroutine, lock, socket or clock. It works on memory that its caller has mapped.
//
// The initiator of a WRITE, READ or atomic operation carries it out by itself where the target's
// memory is mapped, and the target's process has no part in it. Everything else is a message in a
// ring, which the target's process handles: SENDs, and one-sided operations on memory that is not
// shared (docs/decisions/0023-shm.md).
//
//	Begin     gives a queue pair its peer
//	Perform   carries out a short one-sided operation at once, if nothing is before it
//	SendShort sends a short SEND at once, if nothing waits before it
//	Advance   carries out work requests of the send queue, and answers the peer
//	Receive   handles the peer's messages, and completes work requests that it has carried out
//	Lost      ends the connection
//
// # Files
//
//	ring.go, directory.go     the structures in shared memory: messages one way, and regions that peers may use
//	peer.go                   both sides' segments, and the peer's memory that is mapped here
//	doorbell.go               how peers tell a device which connection to look at
//	message.go                the messages
//	qp.go, modify.go          the queue pair, its states; see also package queue
//	sendqueue.go              work requests, from being posted to being completed
//	perform.go                carrying one out at once, without a place in the queue
//	short.go                  SENDs of one message
//	initiator.go, direct.go   carrying them out: by messages, and in mapped memory
//	receive.go, target.go     the peer's messages
//	datagram.go               UD queue pairs, which have no peer
//	unreliable.go             UC queue pairs
//	flush.go                  FLUSH
//	reference.go              SENDs whose payload stays where it is until the receiver copies it
package local
