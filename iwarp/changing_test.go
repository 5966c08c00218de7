// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package iwarp_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestMemoryChanges has a program store all the time to the memory that it sends, that its peer reads
// and that its peer writes to, as a program with flags there does: streams with CRCs last.
func TestMemoryChanges(t *testing.T) {
	const size, times = 1 << 20, 48
	var qps [2]*verbs.QP
	var cqs [2]*verbs.CQ
	var eps [2]verbs.Endpoint
	var mrs [2]*verbs.MR
	done := make(chan struct{})
	var gone sync.WaitGroup
	defer func() { close(done); gone.Wait() }()
	for i := range qps {
		dev := open(t, nil)
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		if cqs[i], err = dev.CreateCQ(2*times, nil); err != nil {
			t.Fatal(err)
		}
		if qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cqs[i], RecvCQ: cqs[i],
			Cap: verbs.QPCap{MaxSendWR: times}}); err != nil {
			t.Fatal(err)
		}
		if eps[i], err = qps[i].Endpoint(0); err != nil {
			t.Fatal(err)
		}
		mem := make([]byte, size)
		if mrs[i], err = pd.RegMR(mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
		gone.Go(func() {
			words := unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), size/8)
			for n := uint64(1); ; n++ {
				for j := range words {
					if j%1024 == 0 {
						select {
						case <-done:
							return
						default:
						}
					}
					atomic.StoreUint64(&words[j], n)
				}
			}
		})
	}
	for i := range qps {
		if err := qps[i].Connect(eps[i], eps[1-i], &pair.Patient); err != nil {
			t.Fatal(err)
		}
	}
	for n := range times {
		op := verbs.OpWrite
		if n%2 == 1 {
			op = verbs.OpRead
		}
		wr := verbs.SendWR{ID: uint64(n), Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{mrs[0].SGE(0, size)},
			Remote: mrs[1].Remote()}
		if err := qps[0].PostSend(&wr); err != nil {
			t.Fatal(err)
		}
	}
	for range times {
		var wc [1]verbs.WC
		if _, err := cqs[0].Wait(bounded(t), wc[:]); err != nil {
			t.Fatal(err)
		}
		if wc[0].Status != verbs.StatusSuccess {
			t.Fatalf("%v %d: %v", wc[0].Op, wc[0].ID, wc[0].Status)
		}
	}
}
