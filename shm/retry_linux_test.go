// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

// TestBacklogFull has more peers dial at once than may wait at a listener whose process does not get to let them in:
// they are not refused, and get in when it does. When the listener goes, they hear of that.
func TestBacklogFull(t *testing.T) {
	nets := twoNetworks(t)
	acc, err := nets[0].Listen(netip.MustParseAddrPort("127.0.0.1:0"), 1)
	noError(t, err)
	dial := func(n int) (all []*link) {
		for range n {
			l, err := nets[1].Dial(netip.MustParseAddrPort("127.0.0.1:0"), acc.Addr(), 0)
			noError(t, err)
			l.Own(&end{})
			all = append(all, l.(*link))
		}
		return all
	}
	// until has both sides go on until every link is connected, or has failed.
	until := func(all []*link, listens bool) (connected, failed int) {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if connected, failed = 0, 0; time.Now().After(end) {
				t.Fatal("some links wait for ever")
			}
			for _, n := range nets {
				n.asked.Store(n.asked.Load() || n == nets[0])
				n.Ready(func(any, bool, bool) {})
			}
			if listens {
				acc.Accept()
			}
			for _, l := range all {
				switch err := l.Connected(); {
				case err == nil:
					connected++
				case err != softdev.ErrAgain:
					failed++
				}
			}
			if connected+failed == len(all) {
				return connected, failed
			}
		}
	}
	all := dial(8)
	for _, l := range all {
		if err := l.Connected(); err != softdev.ErrAgain {
			t.Errorf("at once: %v", err)
		}
	}
	all[5].Close(true) // the program has given up
	all = append(all[:5], all[6:]...)
	if connected, failed := until(all, true); failed > 0 {
		t.Errorf("%d links are connected, %d have failed", connected, failed)
	}
	for _, l := range all {
		l.Close(true)
	}
	if len(nets[1].retries.links) != 0 {
		t.Errorf("%d links go on trying", len(nets[1].retries.links))
	}

	all = dial(8)
	noError(t, acc.Close())
	if connected, failed := until(all, false); connected > 0 {
		t.Errorf("%d links are connected, %d have failed", connected, failed)
	}
	for _, l := range all {
		l.Close(true)
	}
}
