// SPDX-License-Identifier: Apache-2.0

// Package softdev turns a protocol engine and a network into a verbs device: objects, demultiplexing, scheduling,
// timers, and the choice of the thread that moves the data.
//
// # Who moves the data
//
// The thread that polls moves the data. [verbs.CQ.Poll] on an empty queue receives the packets that have arrived and
// sends those that are due, in the goroutine that called it. A post sends at once, in the goroutine that posts. Only
// when nobody polls does the device's own goroutine wait for the network and do both, so that one-sided operations need
// nobody at their target. While a program polls, that goroutine looks once in a [GracePeriod] and does not wait for the
// network, where each packet would wake it.
//
// A program whose polls find nothing, many times in a row, parks: it sleeps at the port until something
// arrives, for at most 200 µs, without the lock. See spin.go.
//
// A program that waits for completions moves the data by itself, and sleeps at the network in place of the
// device's goroutine, so that one thread is woken for a message: see pollowner.go. It polls first while that
// pays: see adaptive.go.
//
// # Lock
//
// One mutex per lane, of which most devices have one, covers the lane's engine, the data that it sends and receives,
// and its accesses to memory. [Device.Lock] takes the locks of all lanes: objects and keys change under it, and
// programs look at memory. Polls of completion queues have a lock of their own; pushes have the lane's. Callbacks to
// package verbs do not block.
//
// It is held for one pass at a time, whose length has a budget: see budget.go. Work that can take arbitrarily long is
// done without it: a FLUSH to a file, and freeing memory.
//
// # One device, two fabrics
//
// Programs call [Device] and [QP], which are the same whatever carries the messages. The differences are behind
// [Fabric] and [QueuePair], and each fabric embeds the common part:
//
//   - packetdev.Device fills batches of packets, and a port carries them (RoCEv2, engine ibta).
//   - streamdev.Device has a stream for each queue pair, and a network makes the streams. Data go as bytes
//     of the stream (iWARP, engine rdmap), or through memory that both processes share (engine local).
//
// These are packages of their own beside this one, which knows neither.
//
// # Where things are
//
//	device.go, route.go, limits.go, version.go  the device: attributes, port, routes, closing; how many objects
//	pd.go, mr.go, cq.go, srq.go, qp.go      its objects
//	nic.go                                  limits as strict as those of a NIC
//	pinning.go                              memory that is pinned, and prefetched
//	fabric.go                               the interfaces that a fabric implements
//	lane.go                                 the lane: a lock, and the state under it
//	lanes.go                                the lanes of a device together
//	pass.go, loop.go, polls.go, budget.go   moving data: a pass, the device's goroutine, polls, limits of a pass
//	spin.go                                 whether a program whose polls find nothing polls on, or parks
//	pollowner.go                            programs that wait, and own the poll meanwhile
//	outside.go                              threads that own the poll, and sleep outside of Go
//	adaptive.go                             whether a wait polls before it sleeps
//	timer.go                                the timers of all fabrics
//	virtual.go                              polls under virtual time
//	halfopen.go                             connections that peers have begun and not continued
//	observe.go, latency.go, objectlists.go  metrics, statistics and lists, which are read without the lock
//	capture.go                              which queue pairs' packets observers capture
//	portstate.go                            the state of a port, common to all fabrics
//	faults.go                               faults that were asked for, of calls and completions
package softdev
