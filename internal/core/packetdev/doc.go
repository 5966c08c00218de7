// SPDX-License-Identifier: Apache-2.0

// Package packetdev is the software device whose queue pairs send packets: engine ibta over a [Port]. It is a fabric
// of package softdev, which has all that programs call.
//
// # Where things are
//
//	device.go, qp.go, port.go               the device and its queue pairs; the interface of a port
//	ah.go, xrc.go                           address handles, XRC domains
//	lane.go                                 the state that queue pairs under one lock share: flows, counters
//	progress.go, schedule.go, ackwait.go    receiving, sending, held acknowledgements
//	mad.go, share.go                        management agents, addresses that several devices have
//	persist.go                              FLUSH to persistence
//	capture.go                              packets that observers capture
//	faults.go                               the effects of faults on packets
package packetdev
