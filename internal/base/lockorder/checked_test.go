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
