// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// Agent is the management agent of a node. It handles the subnet management packets and the datagrams to queue
// pair 1 that reach the node. It changes the node's state, which the network learns by [node.Node.Changed].
type Agent interface {
	// HandleSMP handles a subnet management packet of 256 bytes, which it may change in place. It was received
	// at port in; 0: the node's own manager has sent it.
	HandleSMP(now clock.Time, in int, r Route, smp []byte) Verdict
	// HandleGMP handles a datagram of 256 bytes to queue pair 1 that was received at a port. It returns true if
	// mad is now the response; false if the node does not serve the class.
	HandleGMP(now clock.Time, port int, mad []byte) bool
}

// Route is how a subnet management packet reached the node.
type Route struct {
	Directed bool // by a directed route, not by LID
	SLID     uint16
	DLID     uint16
	Port     int // the receiving port, or the one from which the node's own manager has sent it
}

// Verdict is the decision about a subnet management packet.
type Verdict int

const (
	// Drop discards the packet.
	Drop Verdict = -1 - iota
	// Reply sends it, now the response, to its sender by LID.
	Reply
	// Deliver passes it to this node's own manager, or to queue pair 0.
	Deliver
)

// Out returns the verdict to send the packet from a port, from 1 on: the next hop of a directed route, forth or
// back.
func Out(port int) Verdict { return Verdict(port) }

// Notifier is an agent that also sends traps (section 13.4.8).
type Notifier interface {
	Agent
	// LinkChanged reports that the link of a port came up or went down.
	LinkChanged(now clock.Time, port int)
	// Deadline returns when NextTrap is due; 0: there is nothing to send.
	Deadline() clock.Time
	// NextTrap fills smp, 256 bytes, with a packet to send by LID from the port (0 at a switch).
	NextTrap(now clock.Time, smp []byte) (port int, dlid uint16, sl uint8, ok bool)
}
