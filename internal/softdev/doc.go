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
// It is held for a turn at a time, however much there is to do: see turn.go.
package softdev
