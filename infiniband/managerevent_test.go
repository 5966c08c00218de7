// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
)

// Kinds of events have the numbers of the manager's, and describe themselves as the manager's do.
func TestEventKinds(t *testing.T) {
	for kind, want := range map[EventKind]sm.EventKind{
		EventBecameMaster: sm.BecameMaster, EventBecameStandby: sm.BecameStandby,
		EventBecameInactive: sm.BecameInactive, EventHandingOver: sm.HandingOver,
		EventSweepDone: sm.SweepDone, EventSweepFailed: sm.SweepFailed,
		EventUnresponsive: sm.Unresponsive, EventRefused: sm.Refused,
		EventNotActive: sm.NotActive, EventDuplicateGUID: sm.DuplicateGUID,
		EventInconsistent: sm.Inconsistent, EventTooManyNodes: sm.TooManyNodes,
		EventNoMoreLIDs: sm.NoMoreLIDs, EventCreditLoop: sm.CreditLoop,
		EventNodeFound: sm.NodeFound, EventNodeGone: sm.NodeGone,
		EventLinkFound: sm.LinkFound, EventLinkGone: sm.LinkGone,
		EventLinkReturned: sm.LinkReturned, EventMoreChanges: sm.MoreChanges,
		EventTrapReceived: sm.TrapReceived,
	} {
		e := sm.Event{Kind: want, GUID: 1, Node: "n", Port: 2, Count: 3, Text: "t"}
		got := newManagerEvent(e)
		if got.Kind != kind || got.managers() != e {
			t.Errorf("%v has the kind %d, want %d", e, got.Kind, kind)
		}
	}
	if next := (sm.Event{Kind: sm.EventKind(EventTrapReceived + 1)}); next.String() != "event 22" {
		t.Errorf("the manager has another kind of event: %v", next)
	}
}
