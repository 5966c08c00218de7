// SPDX-License-Identifier: Apache-2.0

package sm

import "fmt"

// EventKind is the kind of an event, and says which fields it has.
type EventKind uint8

const (
	BecameMaster   EventKind = iota + 1
	BecameStandby            // GUID: the master
	BecameInactive           // another manager has disabled this one
	HandingOver              // GUID: the manager that is asked to take over
	SweepDone                // Count: nodes; the subnet is configured
	SweepFailed              // Count: requests that failed; another sweep follows
	Unresponsive             // GUID, Port: the node, or the port of its neighbor behind which it is
	Refused                  // GUID, Port: a node rejects a Set of the manager; Text: the attribute and its status
	NotActive                // GUID, Port: the link did not go to Active
	DuplicateGUID            // GUID: two nodes, or two ports, have it; Port, Text: where the second one is
	Inconsistent             // GUID, Port: answers of the node behind the port contradict each other
	TooManyNodes             // the subnet is larger than Limits.Nodes
	NoMoreLIDs
	CreditLoop   // routes may deadlock
	NodeFound    // GUID: it is new since the last sweep
	NodeGone     // GUID
	LinkFound    // GUID, Port: one end of a cable; Text: the other
	LinkGone     // as LinkFound
	LinkReturned // as LinkFound: it went down and up since the last sweep
	MoreChanges  // Count: further nodes and links that came or went, without events of their own
	TrapReceived // GUID, Port: the notice's subject; Text: its content
)

var eventTexts = map[EventKind]string{
	BecameMaster: "is the master", BecameStandby: "follows the manager of %[1]s",
	BecameInactive: "is not active: another manager has disabled it",
	HandingOver:    "hands the subnet over to the manager of %[1]s",
	SweepDone:      "subnet of %[3]d nodes is up", SweepFailed: "%[3]d requests failed; sweeping again",
	Unresponsive: "no answer from port %[2]d of %[1]s, or from behind it", Refused: "port %[2]d of %[1]s refuses %[4]s",
	NotActive:     "the link at port %[2]d of %[1]s does not become active",
	DuplicateGUID: "two have the GUID of %[1]s; the second, behind port %[2]d of %[4]s, is left out: give it another GUID",
	Inconsistent:  "what is behind port %[2]d of %[1]s contradicts itself, and is left out",
	TooManyNodes:  "there are more than %[3]d nodes; the rest is left out",
	NoMoreLIDs:    "no LID is left for port %[2]d of %[1]s",
	CreditLoop:    "routes have a credit loop of %[3]d links: traffic may stand still there",
	NodeFound:     "%[1]s has come", NodeGone: "%[1]s has gone",
	LinkFound: "new cable: port %[2]d of %[1]s to %[4]s", LinkGone: "no cable any more: port %[2]d of %[1]s to %[4]s",
	LinkReturned: "was down and has come back: the cable from port %[2]d of %[1]s to %[4]s",
	MoreChanges:  "and %[3]d other nodes and cables have come or gone", TrapReceived: "port %[2]d of %[1]s: %[4]s",
}

// Event is something that a manager has done or found.
type Event struct {
	Kind  EventKind
	GUID  uint64
	Node  string // the node's description, if known
	Port  uint8
	Count int
	Text  string
}

// Problem reports whether the event is about a fault, which every sweep finds until it is corrected.
func (e Event) Problem() bool { return e.Kind >= SweepFailed && e.Kind <= CreditLoop }

func (e Event) String() string {
	text, ok := eventTexts[e.Kind]
	if !ok {
		return fmt.Sprintf("event %d", uint8(e.Kind))
	}
	who := fmt.Sprintf("node 0x%016x", e.GUID)
	if e.Node != "" {
		who = fmt.Sprintf("%q (0x%016x)", e.Node, e.GUID)
	}
	// the empty argument allows the other arguments to be unused
	return fmt.Sprintf(text+"%[5]s", who, e.Port, e.Count, e.Text, "")
}

// nodeEvent returns an event about a node.
func nodeEvent(kind EventKind, d *device, num uint8) Event {
	return Event{Kind: kind, GUID: d.info.NodeGUID, Node: d.desc.String(), Port: num}
}

// maxEvents is how many events wait to be taken; the oldest are lost.
const maxEvents = 256

func (m *Manager) emit(e Event) {
	if len(m.events) == maxEvents {
		m.events = append(m.events[:0], m.events[1:]...)
	}
	m.events = append(m.events, e)
}

// NextEvent removes and returns the oldest event; false: there is none. The last 256 are kept.
func (m *Manager) NextEvent() (Event, bool) {
	if len(m.events) == 0 {
		return Event{}, false
	}
	e := m.events[0]
	m.events = append(m.events[:0], m.events[1:]...)
	return e, true
}
