// SPDX-License-Identifier: Apache-2.0

// Package sma is the management agent of an InfiniBand node: what subnet managers ask and set (IBTA
// chapter 14), and the counters that performance managers read (section 16.1). It works on a
// [node.Node], which the link layer works by.
//
// # Use
//
// Whoever receives subnet management packets at the node hands them to [Agent.HandleSMP], with the port
// that they came in at, and does what its [Verdict] says. Directed routes go on and come back this way,
// hop by hop. Datagrams to queue pair 1 go to [Agent.HandleGMP]. Traps are drained with
// [Agent.NextTrap] when [Agent.Deadline] has come.
//
// The agent changes the node's state before it answers, and then calls node.Changed for each port that
// has changed: the link layer trains a link anew, devices take their LID.
//
// # Limits
//
// Subnet managers are not part of the agent: SMInfo, traps and responses are for them (Deliver). There
// is no polling of notices (Get of Notice), no random forwarding table, and no LED. Optional attributes
// of performance management are not there; ask ClassPortInfo. A directed route may begin with a part by
// LIDs; one that ends with such a part is not answered.
//
// A port keeps at most 16 traps until they are repressed; one for each number and place, the newest.
// What does not fit is dropped: a manager finds changes by its sweeps, too.
//
// Nothing here has a lock, a clock or a goroutine. Nothing is allocated while packets are handled, but
// for tables that grow to what is set.
package sma
