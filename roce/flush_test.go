// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"net/netip"
	"testing"
)

// TestFlushes holds that a FLUSH alternates between the two forms of its ICRC as often as it is sent, whatever
// else is sent between, and that a send that the port could not take does not count.
func TestFlushes(t *testing.T) {
	var f flushTracker
	to := &route{to: netip.MustParseAddrPort("127.0.0.2:4791")}
	other := &route{to: netip.MustParseAddrPort("127.0.0.3:4791")}
	head := func(psn byte) []byte { return []byte{0, 0, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, psn} }
	send := func(leaves, want bool, r *route, psn byte) {
		t.Helper()
		f.begin()
		if got := f.isOdd(r, head(psn)); got != want {
			t.Errorf("PSN %d: sent an odd number of times: %t", psn, got)
		}
		if leaves {
			f.sent()
		}
	}
	send(false, false, to, 1)
	send(true, false, to, 1)
	send(true, false, to, 2)
	send(true, false, other, 1)
	send(false, true, to, 1)
	send(true, true, to, 1)
	send(true, false, to, 1)
	send(true, true, to, 2)
	for i := range 2 * maxFlushes {
		f.begin()
		f.isOdd(to, []byte{0, 0, 0xff, 0xff, 0, 0, 0, 9, 0, 1, byte(i >> 8), byte(i)})
		f.sent()
		if len(f.oddTimes) > maxFlushes {
			t.Fatal("there is no bound")
		}
	}
}
