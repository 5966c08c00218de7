// SPDX-License-Identifier: Apache-2.0

// Package sm is a subnet manager and its administrator (IBTA chapters 14 and 15).
//
// A [Manager] sits at one port. It sweeps: it finds all nodes with packets along directed routes, gives
// each port a LID, finds routes, fills the tables of all nodes and takes the links to Active. It sweeps
// again when a switch or a trap tells of a change, and asks all switches from time to time. Of several
// managers one is the master (section 14.4.1), by priority and GUID.
//
// The administrator answers queries about what the last sweep has found, and keeps multicast groups,
// service records and subscriptions.
//
// # Ownership
//
// A Manager is a value that is fed datagrams and time, and drained of datagrams, of events and of its
// next deadline. It has no goroutine, lock or clock, and keeps none of the memory that it is handed.
// Whoever runs it passes directed routes through the management agent of the manager's own node, hands
// it what that agent has delivered, and sets [smp.CapSM] in the port's capability mask: only then do
// other managers find this one, once the agent has told the master of it (trap 144).
//
// # Bounds
//
// What others can make a manager hold is limited, see [Limits]. A call does work for one datagram, and
// the one that ends a part of a sweep does work for the whole subnet: 1,000 adapters are routed in
// well under a second.
//
// # Limits
//
// Adapters' ports have 2^LMC LIDs, switches one. Routes within one subnet only. The administrator has no
// MultiPathRecord, no TraceRecord, no Set of GUIDInfoRecord, and takes no requests of several segments.
// Service levels choose lanes by their number, with equal shares; paths are of level 0 unless a query
// asks for another one. All ports are members of the default
// partition.
package sm
