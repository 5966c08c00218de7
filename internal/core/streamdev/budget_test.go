// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"slices"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestStreamBudget holds that a device with streams ends a pass before it has answered all READs of
// its peers, and goes on with the others in the next one.
func TestStreamBudget(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	const streams, reads, n = 6, 8, 1 << 20
	var qps []*verbs.QP
	for range streams {
		qp, _ := a.join(b, nil)
		qps = append(qps, qp)
	}
	b.rest()
	b.soft.Lane.Mu.Lock()
	defer b.soft.Lane.Mu.Unlock()
	var program sync.WaitGroup
	program.Go(func() { // this goroutine holds b's lock
		for _, qp := range qps {
			a.post(qp, b, n, slices.Repeat([]verbs.SendOp{verbs.OpRead}, reads)...)
		}
	})
	program.Wait()
	most := uint64(0)
	done := make(map[verbs.QPN]int)
	a.eventually(func() bool {
		before := b.soft.carrier.(*byteCarrier).lane.Counters.SentBytes
		b.soft.Lane.NewTime() // a pass
		b.soft.Receive()
		b.soft.Lane.Deliver()
		b.soft.Respond(false, 0, false)
		most = max(most, b.soft.carrier.(*byteCarrier).lane.Counters.SentBytes-before)
		var wcs [64]verbs.WC
		for _, wc := range wcs[:a.cq.Poll(wcs[:])] {
			if done[wc.QPN]++; wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
		}
		for _, qp := range qps {
			if done[qp.Num()] < reads {
				return false
			}
		}
		return true
	}, "all READs are answered")
	if limit := uint64(streamBudgetBytes + 1<<20); most > limit { // the last write may go beyond
		t.Errorf("%d bytes were sent in one pass, want %d at most", most, limit)
	}
}
