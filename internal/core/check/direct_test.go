// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestBeyondBounces has two READs with the same target, one in memory of the checker's, and one for which there is none
// left: what the device writes then is not taken for the program's doing.
func TestBeyondBounces(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newLoop(t, kind, verbs.QPInit{Type: verbs.RC})
			from := w.region(w.pd, 4096)
			copy(from.Bytes()[1000:], "other data")
			var first, second verbs.SendWR
			first.Read(from.Remote(), w.mr.SGE(0, 100)).Flags = verbs.Signaled
			second.Read(from.Remote().At(1000), w.mr.SGE(0, 1000)).Flags = verbs.Signaled
			w.ok(w.qps[0].PostSend(&first))
			w.checker.UseUp(w.qps[0])
			w.ok(w.qps[1].PostSend(&second))
			w.wait(w.cqs[1])
			w.wait(w.cqs[0])
			w.want()
		})
	}
}
