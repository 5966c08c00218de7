// SPDX-License-Identifier: Apache-2.0

// Package streamdev is the software device whose queue pairs have a stream each, of a [Network]. It is a fabric of
// package softdev, which has all that programs call. A carrier moves the data: as bytes of the streams (iWARP, engine
// rdmap), or in memory that the processes share (engine local).
//
// # Where things are
//
//	device.go, qp.go, network.go            the device and its queue pairs; what a network of streams is
//	carrier.go, bytes.go                    how their data travel; as bytes of the streams
//	memory.go, memorynet.go                 in memory that both sides share
//	datagrams.go, datagramqp.go             UD queue pairs there, and the links from device to device that they use
//	groups.go, memorypersist.go             multicast groups and FLUSH there
//	conn.go, connsetup.go, capture.go       a stream from its link to its end, and its segments that observers capture
//	streams.go, callbacks.go, rendezvous.go streams for package cm, and for queue pairs by number
//	faults.go                               what faults do to streams
package streamdev
