// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// BenchmarkPolling has goroutines that poll for one 64-byte WRITE after the other, each between two
// devices of its own, in one process: their peers need the processors too.
func BenchmarkPolling(b *testing.B) {
	for _, n := range []int{1, 2, 3} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var pairs [][2]pair.End
			for range n {
				here, _ := open(b, nil)
				there, _ := open(b, nil)
				pairs = append(pairs, pair.Connect(b, here, there, pair.Options{Type: verbs.RC, Size: 64, Depth: 4}))
			}
			var all sync.WaitGroup
			b.ResetTimer()
			for i, p := range pairs {
				all.Go(func() { writeAndPoll(b, p, (b.N+i)/n) })
			}
			all.Wait()
		})
	}
}

func writeAndPoll(b *testing.B, p [2]pair.End, count int) {
	var wcs [1]verbs.WC
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{p[0].MR.SGE(0, 64)},
		Remote: p[1].MR.Remote()}
	for range count {
		if err := p[0].QP.PostSend(&wr); err != nil {
			b.Error(err)
			return
		}
		for p[0].CQ.Poll(wcs[:]) == 0 {
			continue
		}
		if wcs[0].Status != verbs.StatusSuccess {
			b.Error(wcs[0].Status)
			return
		}
	}
}
