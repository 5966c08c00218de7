// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestCreditsOfLostPackets corrupts packets of a cable for long, so that more is lost than the buffer behind it holds.
// The credits of lost packets come back (IBTA 7.9.4.4): all data arrives in the end, and the link is as fast as
// before once the cable is good again.
func TestCreditsOfLostPackets(t *testing.T) {
	steady(t)
	const size, messages = 256 << 10, 40
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1, nil)
		t.Cleanup(n.Close)
		f, err := n.NewFabric("pair", 1)
		ok(t, err)
		t.Cleanup(f.Close)
		f.AwaitActive()
		a, b := newEndOn(t, f, n.NewHost(), "host-1", size), newEndOn(t, f, n.NewHost(), "host-2", size)
		ok(t, a.qp.Connect(a.ep, b.ep, nil))
		ok(t, b.qp.Connect(b.ep, a.ep, nil))
		write := func() time.Duration {
			began := time.Now()
			for range messages {
				ok(t, a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
					SGL: []verbs.SGE{a.mr.SGE(0, size)}, Remote: b.mr.Remote()}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				var wc [1]verbs.WC
				_, err := a.cq.Wait(ctx, wc[:])
				cancel()
				if err != nil || wc[0].Status != verbs.StatusSuccess {
					t.Fatal(err, wc[0].Status)
				}
			}
			return time.Since(began)
		}
		before := write()
		end := infiniband.End{Node: "host-2", Port: 1}
		ok(t, f.SetErrorRate(end, 0.05))
		write()
		ok(t, f.SetErrorRate(end, 0))
		if after := write(); after > before*5/4 {
			t.Errorf("%d WRITEs take %v after the errors, and took %v before", messages, after, before)
		}
	})
}
