// SPDX-License-Identifier: Apache-2.0

// Package sim is a virtual network with a virtual clock, for the transport engine of
// package ibta: hosts with queue pairs, joined by links that lose, repeat, reorder and
// damage packets, delay them, and drop what a receiver's buffer does not hold.
//
// Nothing in it waits: time steps from one event to the next. Everything follows from a
// seed, so that what failed once fails again, then with its packets recorded.
//
//	net.go           the clock, the links
//	host.go          a device: its queue pairs, its memory, its timers
//	objects.go       what package verbs wants to see of a device
//	conversation.go  random work between two hosts, against a model
//	plan.go          what such a conversation consists of
//	goodput.go       how much arrives under loss
package sim
