// SPDX-License-Identifier: Apache-2.0

//go:build lockorder

package lockorder

import "testing"

// broken reports whether f panics.
func broken(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// Locks of one group are held together, in the order of their numbers; locks of two groups are not.
func TestGroups(t *testing.T) {
	var lanes [3]Mutex[Lane]
	var other Mutex[Lane]
	group := new(int)
	for i := range lanes {
		lanes[i].InGroup(group, i)
	}
	other.InGroup(new(int), len(lanes))
	for i := range lanes {
		lanes[i].Lock()
	}
	if !broken(other.Lock) {
		t.Error("lanes of two devices are locked")
	}
	lanes[0].Unlock()
	if !broken(lanes[0].Lock) {
		t.Error("the first lane is locked after the last")
	}
	lanes[2].Unlock()
	lanes[1].Unlock()
	lanes[0].Lock()
	lanes[0].Unlock()
}

// Locks are taken in their order, each alone in its place, and released where they are held.
func TestOrder(t *testing.T) {
	var lane, other Mutex[Lane]
	var view Mutex[View]
	for range 2 {
		lane.Lock()
		view.Lock()
		view.Unlock()
		if !broken(other.Lock) {
			t.Error("two lanes' locks are held")
		}
		lane.Unlock()
	}
	view.Lock()
	if !broken(lane.Lock) {
		t.Error("a lane's lock is taken inside the view's")
	}
	if !lane.TryLock() {
		t.Fatal("a free lock is not taken")
	}
	lane.Unlock()
	ended := make(chan bool)
	go func() { ended <- broken(view.Unlock) }()
	if !<-ended {
		t.Error("a lock is released by another goroutine")
	}
	view.Unlock()
}
