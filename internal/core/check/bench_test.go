// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"io"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkChecked measures what the checker costs: compare the two of each operation.
func BenchmarkChecked(b *testing.B) {
	for _, kind := range []string{"roce", "shm"} {
		trips := roundTrips
		if kind == "roce" {
			trips = twoRoundTrips
		}
		for _, op := range []struct {
			name string
			run  func(*testing.B, [2]pair.End)
		}{{"write64k", writes}, {"roundtrip64", trips}} {
			for _, checked := range []string{"without", "with"} {
				b.Run(kind+"/"+op.name+"/"+checked, func(b *testing.B) {
					op.run(b, benchPair(b, kind, checked == "with"))
				})
			}
		}
	}
}

func benchPair(b *testing.B, kind string, checked bool) [2]pair.End {
	opts, err := check.ParseOptions("")
	if err != nil {
		b.Fatal(err)
	}
	c := check.New(io.Discard, opts)
	var devs [2]*verbs.Device
	for i := range devs {
		devs[i], _ = loopback.Open(b, func(addr string) (*verbs.Device, error) {
			if kind == "shm" {
				return shm.Open(addr, nil)
			}
			return roce.Open(addr, nil)
		})
		if checked {
			c.Watch(devs[i])
		}
	}
	b.Cleanup(func() {
		if n := len(c.Findings()); n > 0 {
			b.Errorf("findings: %v", c.Findings())
		}
	})
	return pair.Connect(b, devs[0], devs[1], pair.Options{Type: verbs.RC, Size: 1 << 20, Depth: 16})
}

// writes keeps 16 WRITEs of 64 KiB outstanding.
func writes(b *testing.B, ends [2]pair.End) {
	const size = 64 << 10
	a, remote := ends[0], ends[1].MR.Remote()
	b.SetBytes(size)
	var wcs [16]verbs.WC
	outstanding := 0
	poll := func() {
		n := a.CQ.Poll(wcs[:])
		for i := range n {
			if wcs[i].Status != verbs.StatusSuccess {
				b.Fatal(wcs[i].Status)
			}
		}
		outstanding -= n
	}
	for i := 0; b.Loop(); i++ {
		for outstanding == 16 {
			poll()
		}
		off := i % 16 * size
		wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.MR.SGE(off, size)},
			Remote: verbs.Remote{Addr: remote.Addr + uint64(off), Key: remote.Key}}
		if err := a.QP.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
		outstanding++
	}
	for outstanding > 0 {
		poll()
	}
}

// trips is an end of round trips of 64 bytes.
type trips struct {
	pair.End
	b    *testing.B
	left int // completions to come
}

func (e *trips) receive() {
	if err := e.QP.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{e.MR.SGE(64, 64)}}); err != nil {
		e.b.Error(err)
	}
	e.left++
}

func (e *trips) send() {
	if err := e.QP.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{e.MR.SGE(0, 64)}}); err != nil {
		e.b.Error(err)
	}
	e.left++
}

// wait polls until all completions have come. It returns false if it is stopped, or something is wrong.
func (e *trips) wait(stop *atomic.Bool) bool {
	var wcs [2]verbs.WC
	for e.left > 0 {
		if stop.Load() {
			return false
		}
		n := e.CQ.Poll(wcs[:])
		for i := range n {
			if wcs[i].Status != verbs.StatusSuccess {
				e.b.Error(wcs[i].Status)
				stop.Store(true)
			}
		}
		e.left -= n
	}
	return true
}

// roundTrips sends 64 bytes there and back, both ends in one goroutine.
func roundTrips(b *testing.B, ends [2]pair.End) {
	a, z := &trips{ends[0], b, 0}, &trips{ends[1], b, 0}
	var stop atomic.Bool
	for b.Loop() {
		a.receive()
		z.receive()
		a.send()
		z.wait(&stop)
		z.send()
		if !a.wait(&stop) || !z.wait(&stop) {
			return
		}
	}
}

// twoRoundTrips has each end in a goroutine of its own: devices on sockets send and receive while their queues are
// polled.
func twoRoundTrips(b *testing.B, ends [2]pair.End) {
	a, z := &trips{ends[0], b, 0}, &trips{ends[1], b, 0}
	z.receive()
	var stop atomic.Bool
	over := make(chan struct{})
	go func() {
		defer close(over)
		for z.wait(&stop) {
			z.receive()
			z.send()
		}
	}()
	for b.Loop() {
		a.receive()
		a.send()
		if !a.wait(&stop) {
			break
		}
	}
	stop.Store(true)
	<-over
}
