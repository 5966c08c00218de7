// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestRoundTrip loses every fifth packet, the only one of a message or its acknowledgement among them, which
// costs a timeout. Queue pairs' estimates of the round trip stay right: an acknowledgement of a packet that was sent
// twice is no sample (Karn's algorithm, RFC 6298 section 3).
func TestRoundTrip(t *testing.T) {
	steady(t)
	const delay, hosts = 500 * time.Microsecond, 200 * time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1, nil)
		t.Cleanup(n.Close)
		n.Default = simnet.Path{Delay: delay, Loss: 0.2}
		a, b := newEnd(t, n, 4096), newEnd(t, n, 4096)
		ok(t, a.qp.Connect(a.ep, b.ep, nil))
		ok(t, b.qp.Connect(b.ep, a.ep, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 200 {
			op := []verbs.SendOp{verbs.OpWrite, verbs.OpRead}[i%2]
			ok(t, a.qp.PostSend(&verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 100)},
				Remote: b.mr.Remote()}))
			var wc [1]verbs.WC
			if _, err := a.cq.Wait(ctx, wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess {
				t.Fatal(err, wc[0].Status)
			}
			st, err := a.qp.Stats()
			ok(t, err)
			if st.RTT != 0 && (st.RTT < 2*delay || st.RTT > 2*delay+hosts) {
				t.Fatalf("after %d messages, %d timeouts: a round trip of %v is said to be %v", i+1, st.Timeouts,
					2*delay, st.RTT)
			}
		}
		if st, err := a.qp.Stats(); err != nil || st.RTT == 0 || st.Timeouts < 10 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}
