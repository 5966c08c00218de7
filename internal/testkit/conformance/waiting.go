// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var waitTests = []test{
	{name: "Wait/Byte", run: testWaitByte},
	{name: "Wait/Uint64", run: testWaitUint64},
	{name: "Wait/Order", run: testWaitOrder},
	{name: "Wait/Cancel", run: testWaitCancel},
	{name: "Wait/Several", run: testWaitSeveral},
	{name: "Wait/CQCancel", run: testCQCancel},
	{name: "Wait/CQSeveral", run: testCQSeveral},
}

func testWaitByte(t *T) {
	a, b := t.pair(setup{})
	var seen byte
	done := t.waiting(func(ctx context.Context) (err error) { seen, err = b.mr.WaitByte(ctx, 100, 0); return err })
	a.do(verbs.SendWR{Op: verbs.OpWrite, Inline: []byte{1}, Remote: b.at(99)}) // not that one
	a.do(verbs.SendWR{Op: verbs.OpWrite, Inline: []byte{7}, Remote: b.at(100)})
	t.ok(t.finish(done))
	if seen != 7 {
		t.Errorf("saw %d, want 7", seen)
	}
	if v := value(b.mr.WaitByte(t.within(), 100, 0))(t); v != 7 {
		t.Errorf("saw %d, want 7", v)
	}
}

// testWaitUint64 goes back and forth by nothing but one-sided writes, atomics and waits.
func testWaitUint64(t *T) {
	a, b := t.pair(setup{})
	const rounds = 50
	done := make(chan error, 1)
	ctx := t.within()
	go func() {
		for i := range uint64(rounds) {
			v, err := b.mr.WaitUint64(ctx, 8, i)
			if err == nil && v != i+1 {
				err = errors.New("saw another value")
			}
			if err == nil {
				err = b.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Inline: word(v), Remote: a.at(16)})
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range uint64(rounds) {
		wr := verbs.SendWR{Op: verbs.OpWrite, Inline: word(i + 1), Remote: b.at(8)}
		if i%2 == 1 && !t.without(verbs.OpFetchAdd) {
			wr = verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: a.sgl(64, 8), Remote: b.at(8)}
		}
		t.ok(a.qp.PostSend(&wr))
		if v := value(a.mr.WaitUint64(ctx, 16, i))(t); v != i+1 {
			t.Fatalf("round %d: saw %d", i, v)
		}
	}
	t.ok(t.finish(done))
}

// testWaitOrder holds the guarantee: data written before the flag can be seen with it.
func testWaitOrder(t *T) {
	const n = 50000
	a, b := t.pair(setup{size: n + 8})
	for i := range 20 {
		a.fill(0, n, i)
		t.ok(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(0)}))
		t.ok(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: word(uint64(i) + 1),
			Remote: b.at(n)}))
		if v := value(b.mr.WaitUint64(t.within(), n, uint64(i)))(t); v != uint64(i)+1 {
			t.Fatalf("round %d: saw %d", i, v)
		}
		b.holds(0, n, i)
		a.sent(verbs.StatusSuccess)
	}
}

func testWaitCancel(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	done := t.waiting(func(context.Context) error { return e.waitForEver(ctx) })
	cancel()
	if err := t.finish(done); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitFor ended with %v", err)
	}
	if err := e.waitForEver(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitFor ended with %v", err)
	}
	t.ok(e.mr.WaitFor(t.within(), func([]byte) bool { return true }))
}

// testWaitSeveral has goroutines wait for different words of one region.
func testWaitSeveral(t *T) {
	a, b := t.pair(setup{})
	const n = 8
	done := make(chan error, n)
	ctx := t.within()
	for i := range n {
		go func() {
			_, err := b.mr.WaitUint64(ctx, 8*i, 0)
			done <- err
		}()
	}
	for i := range n {
		a.do(verbs.SendWR{Op: verbs.OpWrite, Inline: binary.NativeEndian.AppendUint64(nil, 1),
			Remote: b.at(8 * (n - 1 - i))})
	}
	for range n {
		t.ok(t.finish(done))
	}
}

func testCQCancel(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	done := t.waiting(func(context.Context) error { _, err := e.scq.Wait(ctx, make([]verbs.WC, 1)); return err })
	cancel()
	if err := t.finish(done); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait ended with %v", err)
	}
}

// testCQSeveral has several goroutines wait for the completions of one queue, each for one at a time.
func testCQSeveral(t *T) {
	const waiters, each, size = 4, 50, 8
	a, b := t.pair(setup{cqe: waiters * each, qp: verbs.QPInit{Cap: verbs.QPCap{MaxRecvWR: waiters * each}}})
	for i := range waiters * each {
		b.recv(uint64(i), 0, size)
	}
	var seen [waiters * each]atomic.Int32
	ctx, done := t.within(), make(chan error, waiters)
	for range waiters {
		go func() {
			var wc [1]verbs.WC
			var err error
			for i := 0; i < each && err == nil; i++ {
				if _, err = b.rcq.Wait(ctx, wc[:]); err == nil {
					err = wc[0].Status.Err()
					seen[wc[0].ID].Add(1)
				}
			}
			done <- err
		}()
	}
	for range waiters * each {
		a.do(verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, size)})
	}
	for range waiters {
		t.ok(t.finish(done))
	}
	for id := range seen {
		if n := seen[id].Load(); n != 1 {
			t.Errorf("receive %d completed for %d goroutines", id, n)
		}
	}
}
