// SPDX-License-Identifier: Apache-2.0

//go:build linux

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// onProcesses gives the server and each client a checker of its own, as they have in processes of their own.
func onProcesses(t *testing.T, f func(w *shared)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := &shared{world: &world{T: t}, kind: kind}
			w.checker = w.newChecker()
			t.Cleanup(w.checker.Share())
			w.open(func() *check.Checker {
				c := w.newChecker()
				t.Cleanup(c.Share())
				w.others = append(w.others, c)
				return c
			})
			f(w)
		})
	}
}

// TestRaceOfProcesses has two processes WRITE to the same bytes of a third, which carries out one WRITE after the
// other.
func TestRaceOfProcesses(t *testing.T) {
	for _, wait := range []bool{false, true} {
		onProcesses(t, func(w *shared) {
			w.fill()
			if wait {
				w.post(0, verbs.OpWrite, 0, 4096)
				w.done(0)
				w.landed(0, 4096)
				w.post(1, verbs.OpWrite, 4000, 64)
				w.done(1)
				w.exit()
				return
			}
			w.collide()
		})
	}
}

// TestRaceOfProcessWithOwner has the server send what a client in another process WRITEs: the WRITE is posted first,
// and the server's device rests until the SEND is posted, too.
func TestRaceOfProcessWithOwner(t *testing.T) {
	onProcesses(t, func(w *shared) {
		w.fill()
		w.crossed(0, 64, 4096)
		w.exit("race")
	})
}

// TestQueuePairOrderOfProcesses WRITEs on one queue pair, and tells another process on another.
func TestQueuePairOrderOfProcesses(t *testing.T) { queuePairOrder(t, onProcesses) }

func TestQueuePairOrderSilentOfProcesses(t *testing.T) { queuePairOrderSilent(t, onProcesses) }

// TestQueuePairOrderWordOfProcesses has another process wait for a flag in its memory.
func TestQueuePairOrderWordOfProcesses(t *testing.T) {
	for _, wait := range []bool{false, true} {
		onProcesses(t, func(w *shared) {
			second := w.second(0)
			w.post(0, verbs.OpWrite, 0, 4096)
			if wait {
				w.done(0)
			}
			second.mr.Bytes()[8192] = 1
			remote := w.mr.Remote()
			remote.Addr += size
			w.ok(second.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{second.mr.SGE(8192, 8)}, Remote: remote}))
			_, err := w.mr.WaitByte(w.Context(), size, 0)
			w.ok(err)
			w.wait(second.cq)
			if wait {
				w.verdict()
				return
			}
			w.done(0)
			w.verdict("queue-pair-order")
		})
	}
}
