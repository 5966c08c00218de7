// SPDX-License-Identifier: Apache-2.0

// Package streamdev is the software device whose queue pairs have a stream each, of a [Network]. It is a fabric of
// package softdev, which has all that programs call. A [Carrier] moves the data: as bytes of the streams (iWARP, engine
// rdmap), or in memory that the processes share (package memorydev).
//
// # Where things are
//
//	device.go, qp.go, network.go            the device and its queue pairs; the interface of a network of streams
//	carrier.go, bytes.go                    how their data travel; as bytes of the streams
//	conn.go, connsetup.go, capture.go       a stream from its link to its end, and its segments that observers capture
//	streams.go, callbacks.go, rendezvous.go streams for package cm, and for queue pairs by number
//	faults.go                               the effects of faults on streams
package streamdev
