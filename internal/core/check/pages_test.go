// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"os"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestDestroyedWhilePosted: pages of a receive are usable again, though its queue pair is destroyed by another thread
// while they are protected.
func TestDestroyedWhilePosted(t *testing.T) {
	for _, destroyed := range []bool{false, true} {
		opts, err := check.ParseOptions("protect off=leak,concurrent-use,use-after-destroy,region-in-use")
		if err != nil {
			t.Fatal(err)
		}
		w := &shared{world: &world{T: t}, kind: "roce"}
		w.checker = check.New(&w.report, opts)
		w.open(func() *check.Checker { return w.checker })
		guarded := map[int]bool{}
		check.UsePages(check.Pages{
			Protect: func(low, high uintptr) int {
				if destroyed {
					w.ok(w.qps[0].Close())
				}
				guarded[1] = true
				return 1
			},
			Release: func(guard int) *check.Touch {
				if !guarded[guard] {
					t.Error("pages that are not protected are released")
				}
				delete(guarded, guard)
				return nil
			},
		})
		t.Cleanup(func() { check.UsePages(check.Pages{}) })
		mr, err := w.pd.RegMR(make([]byte, 4*os.Getpagesize()), verbs.LocalWrite)
		w.ok(err)
		err = w.qps[0].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, 4*os.Getpagesize())}})
		if (err != nil) != destroyed || len(guarded) > 0 == destroyed {
			t.Errorf("destroyed %v: error %v, %d ranges of pages are protected", destroyed, err, len(guarded))
		}
	}
}
