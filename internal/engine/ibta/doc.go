// SPDX-License-Identifier: Apache-2.0

// Package ibta is the InfiniBand transport (IBTA volume 1, chapter 9): the requester, the
// responder and the completer of RC, UC, UD and XRC queue pairs, which RoCEv2 and
// InfiniBand share.
//
// A [QP] is a value that is fed packets and time and drained of packets. It has no
// goroutine, no lock, no socket and no clock:
//
//	q.PostSend(now, &wr)                  // commands
//	q.HandlePacket(now, &packet, arrival) // inputs
//	q.HandleTimeout(now)
//	for q.NextPackets(now, &batch) {      // outputs: drain until false after every input
//		port.Send(&batch)
//	}
//	q.Deadline()                          // when HandleTimeout is due
//
// Completions and events of all queue pairs of a lane gather in [Lane].Outbox, which is
// drained after every input too.
//
// The files:
//
//	qp.go, modify.go          the queue pair, its states; see also package queue
//	sendqueue.go              work requests as the requester keeps them
//	timers.go                 all deadlines of a queue pair
//	requester.go, flow.go     from work requests to packets; which queue pair sends
//	regulator.go              a congestion control (package congestion), and its verdict
//	congestion.go             notifications of congestion
//	completer.go              acknowledgements and responses
//	retry.go, retransmit.go   losses and silence: the verdict, and retransmission
//	selective.go              losses that the network reports
//	late.go                   packets that are late and not lost
//	request.go                a row for each class of requests: its right, its response
//	responder.go, execute.go  the checks of a request, and its execution
//	explain.go                why a request was refused
//	duplicate.go              requests that come again
//	flush.go                  FLUSH, which the device carries out
//	reorder.go                packets that come out of order
//	respond.go                acknowledgements and responses on their way out
//	datagram.go, mad.go       UD, and the datagrams of QP1
//	pace.go                   the pace of packets that are not acknowledged
//	path.go                   the port: limits, paths, addresses of packets
//	batch.go                  the packets to send
//	counters.go               counters of events, and reasons why packets are dropped
package ibta
