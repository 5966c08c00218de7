// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestQueuePairOrder WRITEs on one queue pair, and tells the server on another, which is in the same process.
func TestQueuePairOrder(t *testing.T) { queuePairOrder(t, onAll) }

func queuePairOrder(t *testing.T, on func(t *testing.T, f func(w *shared))) {
	for name, c := range map[string]struct {
		wait   bool // for the WRITE, before the server is told
		first  bool // the WRITE is polled before the server's receive
		behind bool // the server is told on the first queue pair, too
		later  bool // the server is told once more, after the completion
		n      int  // bytes of the WRITE
		rules  []string
	}{
		"at once":     {n: 4096, rules: []string{"queue-pair-order"}},
		"polled":      {n: 4096, wait: true},
		"polled next": {n: 4096, first: true},
		"behind":      {n: 4096, behind: true},
		"later":       {n: 4096, later: true},
		"a word":      {n: 8},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, func(w *shared) {
				first, second := w.clients[0], w.second(0)
				server := w.lastServer
				recv := func(qp *verbs.QP) { w.ok(qp.PostRecv(&verbs.RecvWR{})) }
				send := func(c client) { w.ok(c.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled})) }
				recv(server)
				recv(server)
				recv(w.qps[0])
				w.post(0, verbs.OpWrite, 0, c.n)
				if c.wait {
					w.done(0)
				}
				if c.behind {
					send(first)
				}
				send(second)
				if c.first {
					w.done(0)
				}
				w.wait(w.cq)
				if !c.wait && !c.first {
					w.done(0)
				}
				if c.behind {
					w.wait(w.cq)
				}
				if c.later {
					send(second)
					w.wait(w.cq)
				}
				w.verdict(c.rules...)
			})
		})
	}
}

// TestQueuePairOrderSilent has more WRITEs of which nothing tells: so the server learns of them by itself.
func TestQueuePairOrderSilent(t *testing.T) { queuePairOrderSilent(t, onAll) }

func queuePairOrderSilent(t *testing.T, on func(t *testing.T, f func(w *shared))) {
	on(t, func(w *shared) {
		second := w.second(0)
		w.ok(w.lastServer.PostRecv(&verbs.RecvWR{}))
		w.post(0, verbs.OpWrite, 0, 4096)
		w.ok(second.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
		w.wait(w.cq)
		w.done(0)
		for range 3 {
			w.post(0, verbs.OpWrite, 0, 4096)
			w.done(0)
		}
		w.verdict()
	})
}
