// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/core/clock"

// Agent is the management agent of a node: the subnet management packets and the datagrams that reach
// the node are its. It changes the node's state; the network sees that by [node.Node.Changed].
type Agent interface {
	// HandleSMP handles a subnet management packet of 256 bytes, which it may change in place. It came
	// in at port in; 0: the node's own manager has sent it.
	HandleSMP(now clock.Time, in int, r Route, smp []byte) Verdict
	// HandleGMP handles a datagram of 256 bytes to queue pair 1 that came in at a port. True: mad is now
	// the reply to it; false: it is of a class that the node does not serve.
	HandleGMP(now clock.Time, port int, mad []byte) bool
}

// Route is how a subnet management packet came.
type Route struct {
	Directed bool // by a directed route, not by LID
	SLID     uint16
	DLID     uint16
	Port     int // the port that it came in at, also if the node's own manager has sent it there
}

// Verdict is what becomes of a subnet management packet.
type Verdict int

const (
	// Drop: nobody is to see it.
	Drop Verdict = -1 - iota
	// Reply: it is now the answer to its sender, by LID.
	Reply
	// Deliver: it is for this node's own manager, or for whoever reads queue pair 0 here.
	Deliver
)

// Out returns the verdict that the packet goes out at a port, from 1 on: a directed route goes on there,
// or goes back.
func Out(port int) Verdict { return Verdict(port) }

// Notifier is an agent that also sends on its own: traps (section 13.4.8).
type Notifier interface {
	Agent
	// LinkChanged tells that the link of a port came up or went down.
	LinkChanged(now clock.Time, port int)
	// Deadline returns when NextTrap is to be called; 0: nothing is to be sent.
	Deadline() clock.Time
	// NextTrap fills smp, 256 bytes, with a packet to send by LID from the port (0 at a switch).
	NextTrap(now clock.Time, smp []byte) (port int, dlid uint16, sl uint8, ok bool)
}
