// SPDX-License-Identifier: Apache-2.0

// Package sma is the management agent of an InfiniBand node: the attributes that subnet managers get and set (IBTA
// chapter 14), and the counters that performance managers read (section 16.1). It works on a [node.Node], which the
// link layer follows.
//
// # Use
//
// The link layer passes SMPs that the node receives to [Agent.HandleSMP], and follows the [Verdict]. Directed
// routes travel hop by hop this way, forth and back. Datagrams to queue pair 1 go to [Agent.HandleGMP]. Traps are
// drained with [Agent.NextTrap] when [Agent.Deadline] has passed.
//
// The agent changes the node's state before it responds, and then calls node.Changed for each port that has changed,
// so that the link layer retrains links and devices learn their LIDs.
//
// # Limits
//
// Subnet managers are not part of the agent: SMInfo, traps and responses are passed to them (Deliver). There is no
// polling of notices (Get of Notice), no random forwarding table, and no LED. Optional attributes of performance
// management are not supported, as ClassPortInfo says. A directed route may begin with a part by LIDs; a route that
// ends with such a part is not answered.
//
// A port keeps at most 16 traps until they are repressed: for each trap number and port the newest. More are dropped;
// a manager finds changes by its sweeps, too.
//
// Nothing here has a lock, a clock or a goroutine. Handling packets allocates nothing, except for tables that grow.
package sma
