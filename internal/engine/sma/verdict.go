// SPDX-License-Identifier: Apache-2.0

package sma

// Route is how a subnet management packet came.
type Route struct {
	Directed bool // by a directed route, not by LID
	SLID     uint16
	DLID     uint16
	Port     int // the port that it came in at, also if the node's own manager has sent it there
}

// Verdict is what becomes of a subnet management packet: one of these, or [Out] at a port.
type Verdict int

const (
	// Drop: nobody is to see it.
	Drop Verdict = -1 - iota
	// Reply: it is now the answer to its sender, by LID. A packet with a directed route goes on by LID,
	// where the directed part of it ends: to DrSLID on the way back, and else to DrDLID.
	Reply
	// Deliver: it is for this node's own manager, or for whoever reads queue pair 0 here.
	Deliver
)

// Out returns the verdict that the packet goes out at a port, from 1 on: a directed route goes on there,
// or goes back.
func Out(port int) Verdict { return Verdict(port) }
