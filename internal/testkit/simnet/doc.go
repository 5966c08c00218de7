// SPDX-License-Identifier: Apache-2.0

// Package simnet is a network in virtual time for whole devices: the port and the streams that
// packages roce and iwarp get from the system, so that programs on verbs, cm and rnet run on
// them unchanged, with their goroutines, timers and waits, and with faults that follow from a seed.
// InfiniBand fabrics run on its time as they ship.
//
// It works inside a bubble of package testing/synctest only, in which time passes while every
// goroutine waits. docs/decisions/0015-virtual-time.md says how runs come out the same each
// time, and what that asks of a program.
//
//	net.go      the network: hosts, its goroutine, what happens when
//	path.go     what happens to packets and segments between two hosts
//	host.go     hosts, and what may befall them
//	wait.go     waiting and pausing
//	port.go     packets: the port of a RoCE device
//	stream.go   streams: the network of an iWARP device
//	socket.go   TCP sockets for programs
//	segments.go what a stream's end sends, in order
//	fabric.go   InfiniBand: a fabric, and devices at its adapters
//	fabricpath.go what paths do to the packets of a fabric
//	public.go   what package rdmatest sets
//	log.go      what happened, as text and as pcapng
package simnet
