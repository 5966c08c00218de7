// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// waiting is a context that says when somebody waits for it.
type waiting struct {
	context.Context
	once sync.Once
	yes  chan struct{}
}

func (w *waiting) mark() { w.once.Do(func() { close(w.yes) }) }

func (w *waiting) Done() <-chan struct{} { w.mark(); return w.Context.Done() }
func (w *waiting) Err() error            { w.mark(); return w.Context.Err() }

// TestPartialPoll has the server notice a WRITE by one of its bytes.
func TestPartialPoll(t *testing.T) {
	for _, c := range []struct {
		off   int // of the byte
		n     int // of the WRITE
		rules []string
	}{
		{0, 64, []string{"partial-poll"}},
		{62, 64, []string{"partial-poll"}},
		{63, 64, nil},
		{0, 8, nil},
		{0, 1, nil},
		{4000, 8000, []string{"partial-poll"}},
	} {
		onAll(t, func(w *shared) {
			w.fill()
			ctx := &waiting{Context: t.Context(), yes: make(chan struct{})}
			ended := make(chan error)
			go func() {
				_, err := w.mr.WaitByte(ctx, c.off, 0)
				ended <- err
			}()
			<-ctx.yes
			w.post(0, verbs.OpWrite, 0, c.n)
			w.done(0)
			w.ok(<-ended)
			w.exit(c.rules...)
		})
	}
}

// notice has the server wait by f while a client WRITEs n bytes, and then polls the completion.
func (w *shared) notice(n int, f func(ctx context.Context) error) {
	w.Helper()
	ctx := &waiting{Context: w.Context(), yes: make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- f(ctx) }()
	<-ctx.yes
	w.post(0, verbs.OpWrite, 0, n)
	w.ok(<-ended)
	w.done(0)
}

// TestPartialPollUnderWay has the server notice a long WRITE before its end, or with its end.
func TestPartialPollUnderWay(t *testing.T) {
	for _, c := range []struct {
		off   int // of the byte that is looked at
		rules []string
	}{
		{0, []string{"partial-poll"}},
		{size - 1, nil},
	} {
		for _, kind := range []string{"roce", "iwarp"} {
			t.Run(kind, func(t *testing.T) {
				// The server may look too late to see the WRITE under way, so one of several has to be found.
				for try := 0; ; try++ {
					w := newShared(t, kind)
					w.fill()
					w.notice(size, func(ctx context.Context) error {
						return w.mr.WaitFor(ctx, func(b []byte) bool { return b[c.off] != 0 })
					})
					w.checker.Exit()
					if c.rules != nil && w.checker.Findings()["partial-poll"] == 0 && try < 30 {
						continue
					}
					w.verdict(c.rules...)
					if c.rules != nil || try == 3 {
						break
					}
				}
			})
		}
	}
}

// TestPartialPollInParts has the server wait for the first byte of a WRITE, and then for its last.
func TestPartialPollInParts(t *testing.T) {
	onAll(t, func(w *shared) {
		w.fill()
		w.notice(4096, func(ctx context.Context) error {
			if _, err := w.mr.WaitByte(ctx, 0, 0); err != nil {
				return err
			}
			_, err := w.mr.WaitByte(ctx, 4095, 0)
			return err
		})
		w.exit()
	})
}

// TestQueuePairOrderFlag WRITEs data on one queue pair, and its flag on the same or another, which the server waits
// for.
func TestQueuePairOrderFlag(t *testing.T) {
	for _, other := range []bool{false, true} {
		onAll(t, func(w *shared) {
			w.fill()
			second := w.clients[0]
			if other {
				second = w.second(0)
			}
			w.post(0, verbs.OpWrite, 0, 4096)
			remote := w.mr.Remote()
			remote.Addr += size
			w.ok(second.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{second.mr.SGE(0, 1)}, Remote: remote}))
			_, err := w.mr.WaitByte(w.Context(), size, 0)
			w.ok(err)
			w.done(0)
			w.wait(second.cq)
			if other {
				w.verdict("queue-pair-order")
			} else {
				w.verdict()
			}
		})
	}
}
