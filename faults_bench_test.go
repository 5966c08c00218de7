// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkFaults measures WRITEs of 4 KiB, one after the other, on devices without faults, with a fault that concerns
// no packet, and with a fault that looks at each packet and never strikes. Their ratios are the costs of faults that
// only wait.
func BenchmarkFaults(b *testing.B) {
	for _, c := range []struct{ name, text string }{{"none", ""}, {"call", "fail reg_mr EIO nth 1000000"},
		{"packets", "loss nth 1000000000 of mad"}} {
		for _, kind := range []string{"roce", "iwarp", "shm"} {
			if kind != "roce" && c.name == "packets" { // streams have no sorts of packets
				continue
			}
			b.Run(kind+"/"+c.name, func(b *testing.B) {
				open := func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + ":" + addr) }
				near, _ := loopback.Open(b, open)
				far, _ := loopback.Open(b, open)
				ends := pair.Connect(b, near, far, pair.Options{Type: verbs.RC, Size: 4096, Depth: 16})
				if err := ramjet.SetFaults(near, c.text, &testrun.Buffer{}); err != nil {
					b.Fatal(err)
				}
				wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{ends[0].MR.SGE(0, 4096)},
					Remote: ends[1].MR.Remote()}
				var wcs [1]verbs.WC
				b.SetBytes(4096)
				b.ReportAllocs()
				for b.Loop() {
					if err := ends[0].QP.PostSend(&wr); err != nil {
						b.Fatal(err)
					}
					if n, err := ends[0].CQ.Wait(b.Context(), wcs[:]); err != nil || n != 1 ||
						wcs[0].Status != verbs.StatusSuccess {
						b.Fatalf("%+v, %v", wcs[:n], err)
					}
				}
			})
		}
	}
}
