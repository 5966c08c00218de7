// SPDX-License-Identifier: Apache-2.0

// Package sm is a subnet manager and its administrator (IBTA chapters 14 and 15).
//
// A [Manager] runs at one port. It sweeps: it discovers all nodes along directed routes, assigns a LID to each
// port, computes routes, fills the tables of all nodes and takes the links to Active. It sweeps again when a
// switch or a trap reports a change, and polls all switches from time to time (a light sweep). Of several
// managers one is the master (section 14.4.1), by priority and GUID.
//
// The administrator answers queries about the result of the last sweep, and keeps multicast groups, service
// records and subscriptions.
//
// # Ownership
//
// A Manager is fed datagrams and time, and drained of datagrams, events and its next deadline. It has no
// goroutine, lock or clock, and keeps none of the memory that it is passed. The caller passes directed routes
// through the management agent of the manager's own node, hands over the packets that the agent delivers, and
// sets [smp.CapSM] in the port's capability mask: other managers find this one by it, once the agent has
// reported it to the master (trap 144).
//
// # Bounds
//
// [Limits] bounds the memory that other nodes can make a manager hold. A call does the work of one datagram. The
// call that ends a phase of a sweep does work for the whole subnet: 1,000 adapters are routed in well under a second.
//
// # Limits
//
// Adapter ports have 2^LMC LIDs, switches one. There are routes within one subnet only. The administrator has no
// MultiPathRecord, no TraceRecord and no Set of GUIDInfoRecord, and accepts no requests in several segments.
// Service level n uses virtual lane n, modulo the number of lanes, with equal weights; paths have level 0 unless
// a query asks for another. All ports are at least limited members of the default partition.
package sm
