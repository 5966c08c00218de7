// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"testing"
	"time"
)

// take returns the events since the last call.
func (s *testManager) take() []Event {
	e := s.events
	s.events = nil
	return e
}

// found returns the first event of a kind.
func found(t *testing.T, events []Event, kind EventKind) Event {
	t.Helper()
	for _, e := range events {
		if e.Kind == kind {
			return e
		}
	}
	t.Errorf("no event %q in %v", eventTexts[kind], events)
	return Event{}
}

// Events report links that go and come, by the names of their ends, and nothing else.
func TestChangeEvents(t *testing.T) {
	s := newSubnet(t)
	all, sws := s.line(4, true)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	s.run(time.Second, nil)
	s.settle(mgr)
	mgr.take()
	s.run(time.Minute, nil)
	if quiet := mgr.take(); len(quiet) != 0 {
		t.Errorf("a quiet minute has events: %v", quiet)
	}

	a, b := testPort{sws[1], 2}, sws[1].peers[2]
	s.unplug(a)
	s.run(time.Second, nil)
	s.settle(mgr)
	got := mgr.take()
	e := found(t, got, LinkGone)
	if ends := [2]uint64{a.node.node.GUID, b.node.node.GUID}; e.GUID != min(ends[0], ends[1]) || e.Text == "" {
		t.Errorf("%+v, want the cable between %#x and %#x", e, ends[0], ends[1])
	}
	found(t, got, SweepDone)
	s.plug(a, b)
	s.run(time.Second, nil)
	s.settle(mgr)
	found(t, mgr.take(), LinkFound)

	// Out and in again between two looks.
	s.unplug(a)
	s.plug(a, b)
	s.run(15*time.Second, nil)
	s.settle(mgr)
	got = mgr.take()
	for _, e := range got {
		if e.Kind == LinkGone || e.Kind == LinkFound || e.Kind == NodeGone {
			t.Errorf("%v: nobody has seen it go", e)
		}
	}
	found(t, got, LinkReturned)

	s.kill(sws[2])
	s.run(time.Minute, nil)
	got = mgr.take()
	gone := 0
	for _, e := range got {
		if e.Kind == NodeGone {
			gone++
		}
	}
	if gone < 1 {
		t.Errorf("a switch is dead: %v", got)
	}
}

// Of a thousand changes a few have events of their own, and one event has the number of the others.
func TestManyChanges(t *testing.T) {
	s := newSubnet(t)
	sw := s.addSwitch(60)
	all := s.hosts(sw, 50)
	mgr := s.manage(all[0], Config{})
	s.up(mgr)
	s.settle(mgr)
	mgr.take()
	for _, h := range all[10:] {
		s.unplug(h.peers[1])
	}
	s.run(time.Minute, nil)
	s.settle(mgr)
	changes, more := 0, 0
	for _, e := range mgr.take() {
		switch e.Kind {
		case NodeGone, LinkGone:
			changes++
		case MoreChanges:
			more += e.Count
		}
	}
	if changes+more != 80 || more == 0 {
		t.Errorf("%d changes and %d others, want 80 together", changes, more)
	}
}
