// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var concurrencyTests = []test{
	{name: "Concurrent/OneQueue", run: testConcurrentPosts},
	{name: "Concurrent/Objects", run: testConcurrentObjects, needs: []Ability{Numbered}},
	{name: "Concurrent/BothWays", run: testBothWays},
	{name: "Concurrent/ManyQPs", run: testManyQPs},
}

// testConcurrentPosts has two goroutines post to one queue and two poll it: every
// completion comes to exactly one of them.
func testConcurrentPosts(t *T) {
	const each, posters = 400, 2
	a, b := t.pair(setup{cqe: each * posters, qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: each * posters}}})
	ctx, cancel := context.WithCancel(t.within())
	defer cancel()
	var mu sync.Mutex
	seen := map[uint64]int{}
	errs := make(chan error, 2*posters)
	for p := range posters {
		go func() {
			for i := range each {
				wr := verbs.SendWR{ID: uint64(p*each + i), Op: verbs.OpWrite, Flags: verbs.Signaled,
					SGL: a.sgl(p*64, 64), Remote: b.at(p * 64)}
				if err := a.qp.PostSend(&wr); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() {
			var wcs [8]verbs.WC
			for ctx.Err() == nil {
				n := a.scq.Poll(wcs[:])
				mu.Lock()
				for _, wc := range wcs[:n] {
					seen[wc.ID]++
					if wc.Status != verbs.StatusSuccess {
						seen[wc.ID] += 100
					}
				}
				if len(seen) == each*posters {
					cancel()
				}
				mu.Unlock()
			}
			errs <- nil
		}()
	}
	for range 2 * posters {
		t.ok(t.finish(errs))
	}
	if len(seen) != each*posters {
		t.Fatalf("%d completions, want %d", len(seen), each*posters)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%d completed %d times or failed", id, n)
		}
	}
}

// testConcurrentObjects makes and closes objects of one device in several goroutines
// while data moves.
func testConcurrentObjects(t *T) {
	a, b := t.pair(setup{})
	const workers = 4
	errs := make(chan error, workers)
	for range workers {
		go func() { errs <- churn(a.dev, b.ep) }()
	}
	for i := range 100 {
		a.do(verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, SGL: a.sgl(0, 5000), Remote: b.at(0)})
	}
	for range workers {
		t.ok(t.finish(errs))
	}
}

// churn makes objects and closes them in the right order.
func churn(dev *verbs.Device, peer verbs.Endpoint) error {
	for range 20 {
		pd, err := dev.AllocPD()
		if err != nil {
			return err
		}
		cq, err := dev.CreateCQ(8, nil)
		if err != nil {
			return err
		}
		mr, err := pd.RegMR(make([]byte, 64), verbs.LocalWrite)
		if err != nil {
			return err
		}
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			return err
		}
		ep, err := qp.Endpoint(0)
		if err != nil {
			return err
		}
		peer.QPN ^= 0x800000
		if err := qp.Connect(ep, peer, &verbs.ConnectOptions{Timeout: patient}); err != nil {
			return err
		}
		if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 64)}}); err != nil {
			return err
		}
		for _, c := range []interface{ Close() error }{qp, mr, cq, pd} {
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// testBothWays has both ends write, read and send to each other at once.
func testBothWays(t *T) {
	const n, rounds = 30000, 30
	a, b := t.pair(setup{size: 6 * n})
	side := func(e, peer *end) error {
		var wc [1]verbs.WC
		for i := range rounds {
			wrs := []verbs.SendWR{
				{Op: verbs.OpWrite, SGL: e.sgl(0, n), Remote: peer.at(n)},
				{Op: verbs.OpRead, SGL: e.sgl(2*n, n), Remote: peer.at(3 * n)},
				{ID: uint64(i), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: e.sgl(0, n)},
			}
			if _, err := e.qp.PostSendList(wrs); err != nil {
				return err
			}
			for _, cq := range []*verbs.CQ{e.scq, e.rcq} {
				if _, err := cq.Wait(t.Context(), wc[:]); err != nil {
					return err
				}
				if wc[0].Status != verbs.StatusSuccess {
					return fmt.Errorf("%v: %w", wc[0].Op, wc[0].Status.Err())
				}
			}
		}
		return nil
	}
	for _, e := range []*end{a, b} {
		for i := range rounds {
			e.recv(uint64(i), 4*n, n)
		}
	}
	done := make(chan error, 2)
	go func() { done <- side(a, b) }()
	go func() { done <- side(b, a) }()
	t.ok(t.finish(done))
	t.ok(t.finish(done))
}

// testManyQPs moves data on many queue pairs that share one completion queue.
func testManyQPs(t *T) {
	const qps, n = 64, 3000
	da, db := t.devices()
	a, b := t.newEnd(da, setup{cqe: 4 * qps}), t.newEnd(db, setup{size: qps * n})
	pairs := map[verbs.QPN]int{}
	for i := range qps {
		a.addQP(verbs.QPInit{})
		b.addQP(verbs.QPInit{})
		t.join(a, b, verbs.ConnectOptions{})
		pairs[a.qp.Num()] = i
		for k := range 3 {
			a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, SGL: a.sgl(k, n), Remote: b.at(i * n)})
		}
	}
	for range 3 * qps {
		wc := a.sent(verbs.StatusSuccess)
		if i, ok := pairs[wc.QPN]; !ok || uint64(i) != wc.ID {
			t.Fatalf("completion of %d by QP %#x", wc.ID, wc.QPN)
		}
	}
}
