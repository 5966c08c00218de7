// SPDX-License-Identifier: Apache-2.0

// Package queue has the queues of a software device, and the part of its queue pairs that does not depend on their
// transport.
//
//	pair.go     a queue pair's attributes and states (IBTA 10.3, 11.2.5)
//	modify.go   a change of them, with the engine's steps
//	port.go     the ports of a device: MTU, partitions
//	send.go     sends, from being posted to being completed
//	receive.go  receives, from being posted to being completed or flushed
//	recv.go     receive queues, of one queue pair or shared
//	cq.go       completion queues
//	failure.go  why a queue pair stopped
//	outbox.go   completions and events on their way to the program
//	slots.go    places in queues that are as long as a NIC's
//	ring.go     rings that grow with use, so that an idle queue pair costs little
//
// The engines, internal/engine/ibta and internal/engine/rdmap, embed a [Pair] in their queue pairs and add the protocol
// of the wire. Only a [CQ], and a [RecvQueue] that is shared, are safe for concurrent use: the lane's lock covers
// everything else.
package queue
