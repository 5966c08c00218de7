// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"testing"
	"time"
)

// TestSCTPWaitLists holds that a wait ends at once while a link is in the list, although what arrives for it wakes
// nobody, and not without one.
func TestSCTPWaitLists(t *testing.T) {
	n := &sctpNetwork{wakeup: make(chan struct{}, 1), closing: make(chan struct{})}
	n.mu.Lock()
	n.list(&sctpAcceptor{net: n})
	n.mu.Unlock()
	<-n.wakeup // an earlier wait took it
	ended := make(chan error)
	wait := func() { ended <- n.Wait() }
	for range 2 {
		go wait()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a wait does not end while a link is listed")
		}
	}
	n.mu.Lock()
	n.ready = nil
	n.mu.Unlock()
	go wait()
	select {
	case <-ended:
		t.Fatal("a wait has ended for nothing")
	case <-time.After(10 * time.Millisecond):
	}
	n.Wake()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
