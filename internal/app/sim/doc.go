// SPDX-License-Identifier: Apache-2.0

// Package sim simulates hosts, Ethernet or InfiniBand switches and their links in virtual time. The hosts run the
// transport engine that ships, package ibta, requester and responder, with its congestion controls:
// flows post work requests to queue pairs and wait for their completions.
//
// There are no goroutines, sockets or clocks: one heap of events. Headers are always encoded and
// decoded. Payload is a length, unless [Config].Payload asks for every byte and its ICRC. The same
// configuration, topology and flows lead to the same results, byte for byte.
//
// A [Sim] is for one goroutine.
//
//	sim.go         a simulation, its events, flows
//	event.go       virtual time, the heap of events
//	packet.go      packets, their sizes and classes
//	port.go        ends of links: queues, pauses
//	credit.go      flow control of InfiniBand links
//	switch.go      switches: shared buffer, PFC, ECN, equal paths
//	trim.go        switches that cut payload, and the hosts' reaction
//	host.go        hosts: a network card on which queue pairs take turns
//	pair.go        queue pairs of flows, their work requests and timers
//	datagram.go    flows of datagrams, on UD queue pairs
//	telemetry.go   records of switches in packets, for congestion controls
//	topology.go    stars, dumbbells, leaf-spine, fat trees; routes
//	traffic.go     incast, permutation, all-to-all, Poisson; distributions of sizes
//	collective.go  all-reduce by ring, halving and doubling, tree
//	order.go       flows that begin when others have ended
//	hpcc.go        topologies and flows in the formats of HPCC's simulator
//	observe.go     the events of packets at chosen ports
//	trace.go       rates and queues over time
//	failure.go     links, switches and hosts that fail, and come back
//	watchdog.go    the switches' watchdog for pause storms
//	result.go      the results
package sim
