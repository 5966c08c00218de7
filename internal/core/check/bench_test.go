// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"io"
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
		for _, op := range []struct {
			name string
			run  func(*testing.B, [2]pair.End)
		}{{"write64k", writes}, {"roundtrip64", roundTrips}} {
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

// roundTrips sends 64 bytes there and back.
func roundTrips(b *testing.B, ends [2]pair.End) {
	receive := func(e pair.End) {
		if err := e.QP.PostRecv(&verbs.RecvWR{ID: 1, SGL: []verbs.SGE{e.MR.SGE(64, 64)}}); err != nil {
			b.Fatal(err)
		}
	}
	send := func(e pair.End) {
		if err := e.QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{e.MR.SGE(0, 64)}}); err != nil {
			b.Fatal(err)
		}
	}
	wait := func(e pair.End, n int) { // of all that it has posted
		var wcs [2]verbs.WC
		for n > 0 {
			got := e.CQ.Poll(wcs[:])
			for i := range got {
				if wcs[i].Status != verbs.StatusSuccess {
					b.Fatal(wcs[i].Status)
				}
			}
			n -= got
		}
	}
	a, z := ends[0], ends[1]
	for b.Loop() {
		receive(a)
		receive(z)
		send(a)
		wait(z, 1)
		send(z)
		wait(a, 2)
		wait(z, 1)
	}
}
