// SPDX-License-Identifier: Apache-2.0

// Package simnet is a network in virtual time for whole devices: the port and the streams that
// packages roce and iwarp get from the system, so that programs on verbs, cm and rnet run on
// them unchanged, with their goroutines, timers and waits, and with faults that follow from a seed.
// InfiniBand fabrics run on its time as they ship.
//
// It works inside a bubble of package testing/synctest only, in which time passes while every
// goroutine waits. docs/decisions/0015-virtual-time.md says how runs come out the same each
// time, and the conditions for a program.
//
//	net.go      the network: hosts, its goroutine, the queue of events
//	path.go     the faults of packets and segments between two hosts
//	host.go     hosts, and their faults
//	wait.go     waiting and pausing
//	port.go     packets: the port of a RoCE device
//	stream.go   streams: the network of an iWARP device
//	socket.go   TCP sockets for programs
//	segments.go the segments of a stream's end, in order
//	fabric.go   InfiniBand: a fabric, and devices at its adapters
//	fabricpath.go the faults of a fabric's packets
//	public.go   the settings of package rdmatest
//	log.go      the log of events, as text and as pcapng
package simnet
