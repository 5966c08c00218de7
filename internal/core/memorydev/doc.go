// SPDX-License-Identifier: Apache-2.0

// Package memorydev is the software device whose queue pairs move data in memory that processes of a host share
// (engine local). It is a carrier of package streamdev: a queue pair's stream, of a [Network], only carries the set-up
// and shows when the peer ends.
//
// # Where things are
//
//	device.go, endpoint.go       the device's part, and that of a queue pair
//	notready.go                  messages that find no receive
//	network.go                   the interface of a network of memory
//	datagrams.go, datagramqp.go  UD queue pairs, and the links from device to device that they use
//	groups.go                    multicast groups
//	persist.go                   FLUSH to persistence
package memorydev
