// SPDX-License-Identifier: Apache-2.0

package sm

import "fmt"

// EventKind is what has happened.
type EventKind uint8

const (
	BecameMaster   EventKind = iota + 1
	BecameStandby            // GUID: the manager that is followed
	BecameInactive           // another manager has disabled this one
	SweepDone                // Count: nodes; the subnet is configured
	SweepFailed              // Count: requests without a good answer; a sweep follows
	Unresponsive             // GUID: the node, or the node before it; Port: through which it is reached
	DuplicateGUID            // GUID: two nodes, or two ports, have it
	Inconsistent             // GUID, Port: what is behind the port contradicts itself
	TooManyNodes             // the subnet is larger than Limits.Nodes
	NoMoreLIDs
	CreditLoop // routes may block each other
)

var eventTexts = map[EventKind]string{
	BecameMaster: "is the master", BecameStandby: "follows manager 0x%016[1]x", BecameInactive: "is not active",
	SweepDone: "subnet of %[3]d nodes is up", SweepFailed: "%[3]d requests failed; sweeping again",
	Unresponsive:  "no answer from port %[2]d of node 0x%016[1]x, or from behind it",
	DuplicateGUID: "two have the GUID 0x%016[1]x; the second, at port %[2]d, is left out",
	Inconsistent:  "what is behind port %[2]d of node 0x%016[1]x contradicts itself, and is left out",
	TooManyNodes:  "there are more than %[3]d nodes; the rest is left out", NoMoreLIDs: "no LID is left for port 0x%016[1]x",
	CreditLoop: "routes have a credit loop of %[3]d links",
}

// Event tells of what a manager has done or found.
type Event struct {
	Kind  EventKind
	GUID  uint64
	Port  uint8
	Count int
}

func (e Event) String() string {
	text, ok := eventTexts[e.Kind]
	if !ok {
		return fmt.Sprintf("event %d", uint8(e.Kind))
	}
	return fmt.Sprintf(text+"%[4]s", e.GUID, e.Port, e.Count, "") // the last one lets the others be unused
}

// maxEvents is how many events wait to be taken; the oldest are lost.
const maxEvents = 256

func (m *Manager) tell(e Event) {
	if len(m.events) == maxEvents {
		m.events = append(m.events[:0], m.events[1:]...)
	}
	m.events = append(m.events, e)
}

// NextEvent returns the oldest event that was not taken, false if there is none. Of those that nobody
// takes, the last 256 are kept.
func (m *Manager) NextEvent() (Event, bool) {
	if len(m.events) == 0 {
		return Event{}, false
	}
	e := m.events[0]
	m.events = append(m.events[:0], m.events[1:]...)
	return e, true
}
