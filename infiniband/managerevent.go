// SPDX-License-Identifier: Apache-2.0

package infiniband

import "github.com/ramjet-rdma/ramjet/internal/engine/sm"

// ManagerEvent is something that a subnet manager has done or found. The constants of [EventKind] say which of the
// other fields an event has.
type ManagerEvent struct {
	Kind  EventKind
	GUID  uint64 // of a node, or of another manager
	Node  string // the node's NodeDescription, if known
	Port  uint8  // of the node
	Count int    // of nodes, requests, links or changes
	Text  string // further text
}

// EventKind is the kind of a [ManagerEvent].
type EventKind uint8

const (
	EventBecameMaster   EventKind = iota + 1
	EventBecameStandby            // another manager is the master; GUID: that of its node
	EventBecameInactive           // another manager has disabled this one
	EventHandingOver              // another manager is asked to take over; GUID: that of its node
	EventSweepDone                // the subnet is configured; Count: its nodes
	EventSweepFailed              // Count: requests that failed; another sweep follows
	EventUnresponsive             // GUID, Port: the node, or the port of its neighbor behind which the node is
	EventRefused                  // GUID, Port: a node rejects a Set of the manager; Text: the attribute and its status
	EventNotActive                // GUID, Port: the link did not become active
	EventDuplicateGUID            // GUID: two nodes, or two ports, have it; Port, Text: where the second one is
	EventInconsistent             // GUID, Port: answers of the node behind the port contradict each other
	EventTooManyNodes             // Count: how many nodes the manager takes; the others are left out
	EventNoMoreLIDs               // GUID, Port: no LID is left for the port
	EventCreditLoop               // Count: links of a loop of credits, in which traffic may stand still
	EventNodeFound                // GUID: it is new since the last sweep
	EventNodeGone                 // GUID
	EventLinkFound                // GUID, Port: one end of a new cable; Text: the other
	EventLinkGone                 // GUID, Port, Text: as of EventLinkFound
	EventLinkReturned             // GUID, Port, Text: as of EventLinkFound; the link was down since the last sweep
	EventMoreChanges              // Count: further nodes and links that came or went, without events of their own
	EventTrapReceived             // GUID, Port: the subject of a trap; Text: its content
)

// Problem reports whether the event is about a fault. Every sweep finds a fault again until it is corrected.
func (e ManagerEvent) Problem() bool { return e.managers().Problem() }

// String describes the event in a line.
func (e ManagerEvent) String() string { return e.managers().String() }

// managers returns the event as subnet managers have it.
func (e ManagerEvent) managers() sm.Event {
	return sm.Event{Kind: sm.EventKind(e.Kind), GUID: e.GUID, Node: e.Node, Port: e.Port, Count: e.Count, Text: e.Text}
}

// newManagerEvent returns an event of a subnet manager as users get it.
func newManagerEvent(e sm.Event) ManagerEvent {
	return ManagerEvent{Kind: EventKind(e.Kind), GUID: e.GUID, Node: e.Node, Port: e.Port, Count: e.Count, Text: e.Text}
}
