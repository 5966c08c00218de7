// SPDX-License-Identifier: Apache-2.0

//go:build !race

package roce_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A program stores to memory while it is sent, as one does whose peer polls a flag of it with READs. Each packet has
// the ICRC of the bytes that go out: no packet is dropped.
func TestPayloadThatChanges(t *testing.T) {
	t.Parallel()
	a, _ := open(t, nil)
	b, _ := open(t, nil)
	const size = 64 << 10
	ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: size, Depth: 4})
	for _, op := range []verbs.SendOp{verbs.OpRead, verbs.OpWrite} {
		owner := ends[1]
		if op == verbs.OpWrite {
			owner = ends[0]
		}
		var done atomic.Bool
		var gone sync.WaitGroup
		mem := owner.MR.Bytes()
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), size/8)
		gone.Go(func() {
			for i := uint64(1); !done.Load(); i++ {
				for j := range words {
					atomic.StoreUint64(&words[j], i)
				}
			}
		})
		for i := range 300 {
			wr := verbs.SendWR{ID: uint64(i), Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{ends[0].MR.SGE(0, size)},
				Remote: ends[1].MR.Remote()}
			if err := ends[0].QP.PostSend(&wr); err != nil {
				t.Fatal(err)
			}
			var wc [1]verbs.WC
			if n, err := ends[0].CQ.Wait(t.Context(), wc[:]); n != 1 || err != nil ||
				wc[0].Status != verbs.StatusSuccess {
				t.Fatal(n, err, wc[0].Status)
			}
		}
		done.Store(true)
		gone.Wait()
	}
	for _, dev := range []*verbs.Device{a, b} {
		if n := loopback.Counter(t, dev, "dropped_icrc_error"); n > 0 {
			t.Errorf("%s: %d ICRCs were wrong", dev.Name(), n)
		}
	}
}
