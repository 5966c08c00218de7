// SPDX-License-Identifier: Apache-2.0

// Package perf measures verbs between two processes, as the perftest programs do:
// bandwidth and latency of SEND, WRITE, READ and atomics over RC, UC and UD.
//
// A [Client] decides the measurements. The process at the other end of its control connection runs
// [Serve]. They exchange lines of JSON over TCP, and measure over the device of the address that
// the connection has at either end. One session does any number of measurements, including bare
// sockets, so that compared figures come from the same two processes at nearly the same time.
// [StartPeer] starts the second process for programs that measure on one machine.
//
// # What the loops do
//
// Everything that a measurement needs is created before its clock starts: work requests, their
// lists and the completions are reused, and the loops allocate nothing ([Report.Allocs]). One
// completion queue serves sends and receives, up to 64 completions are taken at once, and receives
// are reposted in lists.
//
// A one-sided target polls an empty queue, which drives its device, unless Events is set: then
// neither side polls and the device's own goroutine does the work.
//
// After each measurement the side that received data compares it with the sent data.
package perf
