// SPDX-License-Identifier: Apache-2.0

package statsocket_test

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkWatched has WRITEs of 4 KiB go between two devices, one of which has 10,000 other queue pairs, in short
// windows that have a snapshot in them and others that have none in turn. It reports by how much a
// snapshot a second would slow them down: the median of pairs of windows, whose snapshots are 20 a second.
func BenchmarkWatched(b *testing.B) {
	open := func() (*verbs.Device, *verbs.PD, *verbs.CQ, *verbs.QP, *verbs.MR) {
		dev, _ := loopback.Open(b, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
		pd, err := dev.AllocPD()
		if err != nil {
			b.Fatal(err)
		}
		cq, err := dev.CreateCQ(100, nil)
		if err != nil {
			b.Fatal(err)
		}
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			b.Fatal(err)
		}
		mr, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteWrite)
		if err != nil {
			b.Fatal(err)
		}
		return dev, pd, cq, qp, mr
	}
	_, pd, cq, qp, mr := open()
	_, _, _, peer, target := open()
	for range 10_000 {
		if _, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
			b.Fatal(err)
		}
	}
	from, err := qp.Endpoint(0)
	if err != nil {
		b.Fatal(err)
	}
	to, err := peer.Endpoint(0)
	if err != nil {
		b.Fatal(err)
	}
	if err := qp.Connect(from, to, nil); err != nil {
		b.Fatal(err)
	}
	if err := peer.Connect(to, from, nil); err != nil {
		b.Fatal(err)
	}
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, 4096)},
		Remote: target.Remote()}
	const depth, window, rate = 16, 50 * time.Millisecond, 20
	for range depth {
		if err := qp.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
	}
	wcs := make([]verbs.WC, depth)
	run := func() (done int) {
		for end := time.Now().Add(window); time.Now().Before(end); {
			for i := range cq.Poll(wcs) {
				if err := wcs[i].Status.Err(); err != nil {
					b.Fatal(err)
				}
				if err := qp.PostSend(&wr); err != nil {
					b.Fatal(err)
				}
				done++
			}
		}
		return done
	}
	start, done := make(chan bool), make(chan error)
	go func() {
		var w observe.Writer
		for range start {
			done <- w.Snapshot(io.Discard)
		}
	}()
	var ratios []float64
	for b.Loop() {
		alone := run()
		start <- true
		watched := run()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		ratios = append(ratios, float64(watched)/float64(alone))
	}
	close(start)
	slices.Sort(ratios)
	b.ReportMetric(100*(1-ratios[len(ratios)/2])/rate, "%off/snapshot/s")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
