// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"flag"
	"math"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

var whole = flag.Bool("whole", false, "also under loss: the table in docs/performance.md, which takes minutes")

// overPath runs WRITEs or READs of 1 MiB over a path of 1 Gb/s with a round trip of rtt.
func overPath(t *testing.T, op verbs.SendOp, rtt time.Duration, loss float64) result {
	t.Helper()
	tr := transfer{op: op, length: 1 << 20, depth: 64, window: 1 << 20,
		path: simnet.Path{Rate: 1e9, Delay: rtt / 2, Loss: loss}}
	r := goodput(t, tr, max(time.Second, 40*rtt))
	t.Logf("%v %6v  loss %.2f %%  %6.1f Mb/s  %7d packets  %5d times back  %4d timeouts; model of TCP: %.1f Mb/s",
		op, rtt, 100*loss, r.goodput/1e6, r.packets, r.rewinds, r.timeouts, tcpModel(rtt, loss)/1e6)
	return r
}

// tcpModel is the rate of one TCP connection with CUBIC on a link of 1 Gb/s in the long run, in
// bits per second, by the response functions of the literature and not by measurement: the
// larger of CUBIC's (RFC 9438 section 5.1, with C = 0.4 and beta = 0.7) and Reno's (Mathis et
// al. 1997) average window, in segments of 1460 bytes, a round trip. The functions know
// nothing of queues, of retransmission timeouts or of how a connection begins.
func tcpModel(rtt time.Duration, loss float64) float64 {
	const mss, frame = 1460, 1460 + 40 + 14
	link := 1e9 * mss / frame
	if loss == 0 {
		return link
	}
	cubic := math.Pow(0.4*(3+0.7)/(4*(1-0.7)), 0.25) * math.Pow(rtt.Seconds()/loss, 0.75)
	reno := math.Sqrt(3 / (2 * loss))
	return min(link, max(cubic, reno)*mss*8/rtt.Seconds())
}

// TestPaths has a path without loss filled, however long it is: the share of the link over
// the first 40 round trips (and no less than a second) includes the time that the
// requester takes to find out the round trip, and the bandwidth-delay product. Long runs
// have more paths.
// With -whole it prints the table in docs/performance.md.
func TestPaths(t *testing.T) {
	paths := []struct {
		rtt         time.Duration
		write, read float64 // least share of the link
	}{
		{100 * time.Microsecond, 0.93, 0.93},
		{time.Millisecond, 0.93, 0.93},
		{8 * time.Millisecond, 0.9, 0.9},
		{40 * time.Millisecond, 0.75, 0.75},
		{100 * time.Millisecond, 0.7, 0.7},
		{200 * time.Millisecond, 0.6, 0.45}, // 16 READs of 1 MiB are 0.67 of this path
	}
	losses := []float64{0}
	if *whole {
		losses = []float64{0, 0.0001, 0.001, 0.01}
	}
	for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpRead} {
		t.Run(op.String(), func(t *testing.T) {
			for _, c := range paths {
				if c.rtt != time.Millisecond && c.rtt != 40*time.Millisecond && !testrun.Long() && !*whole {
					continue
				}
				if raceDetector && c.rtt != time.Millisecond { // more rows would tell it nothing new
					continue
				}
				want := c.write
				if op == verbs.OpRead {
					want = c.read
				}
				for _, loss := range losses {
					r := overPath(t, op, c.rtt, loss)
					if loss == 0 && r.goodput < want*1e9 {
						t.Errorf("%v over %v: %.1f Mb/s of 1000, want %.0f or more", op, c.rtt, r.goodput/1e6,
							1000*want)
					}
				}
			}
		})
	}
}
