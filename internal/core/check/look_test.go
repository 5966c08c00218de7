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
