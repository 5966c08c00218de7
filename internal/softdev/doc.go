// SPDX-License-Identifier: Apache-2.0

// Package softdev turns the transport engine and a port into a verbs device: objects,
// demultiplexing, scheduling, timers, and who moves the data when.
//
// # Who moves the data
//
// Whoever polls. [verbs.CQ.Poll] on an empty queue receives what the port has and sends
// what is due, in the goroutine that called it. A post sends at once, in the goroutine
// that posts. Only when nobody polls does the device's own goroutine wait at the port and
// do both, so that one-sided operations need nobody at their target. While a program
// polls, that goroutine looks in every [lease] and does not wait at the port, where each
// packet would wake it.
//
// # Lock
//
// One mutex a device covers its engine, its port's sends and receives, and all data
// memory. Completion queues have a lock of their own, taken inside it. Callbacks to
// package verbs do not block.
//
// It is held for a turn at a time, however much there is to do: see turn.go. What can take as
// long as the system likes is done without it: a FLUSH to a file, and giving memory back.
//
// # Where things are
//
//	core.go, cq.go, mr.go, pd.go, srq.go    what devices of both kinds have
//	loop.go, lease.go, turn.go              the device's goroutine, and who moves data for how long
//	limits.go                               how many objects there may be
//	halfopen.go                             what peers begin and do not go on with
//	device.go, qp.go, port.go               [Device]: queue pairs over a port for packets
//	progress.go, schedule.go, patience.go   receiving, sending, timers, held acknowledgements
//	gsi.go, share.go, persist.go            QP1, addresses that several devices have, FLUSH
//	streamdev.go, streamqp.go, network.go   [StreamDevice]: queue pairs over a network of streams
//	conn.go, connsetup.go, alarm.go         a stream from its link to its end
//	streams.go, news.go, rendezvous.go      streams for package cm, and for queue pairs by number
package softdev
