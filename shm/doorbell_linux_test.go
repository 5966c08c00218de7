// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/local"
)

// TestDoorbellOfOthers has a peer write to the doorbell that it shares with others: a message that another peer has
// sent over a cold link is found all the same.
func TestDoorbellOfOthers(t *testing.T) {
	t.Parallel() // it waits
	for name, fill := range map[string]byte{"cleared": 0, "filled": 0xff} {
		t.Run(name, func(t *testing.T) {
			a, b := newEnds(t)
			pass := func() { a.net.Ready(func(any, bool, bool) { a.found++ }) }
			for !a.net.Arm() { // now the link is cold
				pass()
			}
			ring, err := local.NewSender(b.own[requestsAt:], requestRing)
			noError(t, err)
			if body, err := ring.Reserve(8, sendMessage); err != nil || body == nil {
				t.Fatalf("there is no room: %v", err)
			}
			ring.Publish()
			b.Ring()
			doorbell := a.net.doorbellSeg.Bytes()
			for i := range doorbell {
				doorbell[i] = fill
			}
			a.found = 0
			for end := time.Now().Add(30 * time.Second); a.found == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("nobody looks at what has come")
				}
				pass()
			}
		})
	}
}

// TestColdInParts has a device with more cold links than one pass looks at: the look goes on until each
// has had its turn, and the device does not sleep before.
func TestColdInParts(t *testing.T) {
	a, _ := newEnds(t)
	for !a.net.Arm() {
		a.net.Ready(func(any, bool, bool) {})
	}
	l := a.link
	for len(a.net.links) <= 3*coldAtOnce {
		a.net.links = append(a.net.links, nil)
	}
	last := len(a.net.links) - 1
	a.net.links[0], a.net.links[last] = nil, l
	t.Cleanup(func() { a.net.links[0], a.net.links[last] = l, nil })
	l.theirs[requestsAt+256] = 1 // a message
	a.net.ring()                 // the alarm
	passes := 0
	for found := 0; found == 0; passes++ {
		if passes > 4 {
			t.Fatal("the last link has no turn")
		}
		if a.net.Arm() {
			t.Fatal("the device sleeps before the last link has had its turn")
		}
		a.net.Ready(func(any, bool, bool) { found++ })
	}
	if passes != 4 {
		t.Errorf("%d passes look at %d links, not 4", passes, len(a.net.links))
	}
}
