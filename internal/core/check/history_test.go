// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestMeeting: the operations that one meets are those of other queue pairs at its bytes, of which one is no READ,
// while operations come, grow, and are given up.
func TestMeeting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := &Device{c: &Checker{history: newHistory()}}
	h := d.c.history
	w := watcher{h, d}
	room := make([]byte, 1024)
	for i := range 4000 {
		qpns := 1 + i/1000 // at first there is one peer
		qpn := verbs.QPN(1 + rng.IntN(qpns))
		off := rng.IntN(len(room) - 64)
		switch n := 1 + rng.IntN(32); rng.IntN(8) {
		case 0:
			h.stopped(endpoint{d, qpn})
		case 1, 2:
			w.Begin(qpn, verbs.OpRead, verbs.Remote{}, room[off:off+n])
			w.End(qpn, verbs.OpRead, room[off:off+n], true)
		default:
			w.Begin(qpn, verbs.OpWrite, verbs.Remote{}, room[off:off+n])
			w.Extend(qpn, room[off+n:off+n+rng.IntN(32)])
			if rng.IntN(4) > 0 {
				w.End(qpn, verbs.OpWrite, nil, true)
			}
		}
		if len(h.accesses) == 0 {
			continue
		}
		a := h.accesses[rng.IntN(len(h.accesses))]
		if a == nil {
			continue
		}
		var want []*access
		for _, o := range h.accesses {
			reads := o != nil && a.op == verbs.OpRead && o.op == verbs.OpRead
			if o != nil && o.at != a.at && a.lo < o.hi && o.lo < a.hi && !reads {
				want = append(want, o)
			}
		}
		if got := slices.Collect(h.meeting(a)); !slices.Equal(got, want) {
			t.Fatalf("operation %d: %d are met, not %d", i, len(got), len(want))
		}
	}
}
