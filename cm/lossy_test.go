// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
)

// Connections come up and go down, whatever datagrams the managers lose or repeat.
func TestLossyDatagrams(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	cm.Lossy(t, a, 0.05, 0.05, 7)
	cm.Lossy(t, b, 0.05, 0.05, 8)
	l := listen(t, b)
	ctx := within(t)
	const workers, each = 10, 5
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				c, err := l.Accept(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				m, err := c.Recv(ctx)
				if err != nil {
					t.Error(err)
				} else {
					if err := c.Send(ctx, m.Bytes()); err != nil {
						t.Error(err)
					}
					m.Release()
				}
				<-c.Done()
				c.Close()
			}
		})
	}
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				c, err := cm.Dial(ctx, a, l.Addr().String())
				if err != nil {
					t.Error(err)
					continue
				}
				want := fmt.Sprint("connection ", w, ".", i)
				if err := c.Send(ctx, []byte(want)); err != nil {
					t.Error(err)
				} else if m, err := c.Recv(ctx); err != nil || string(m.Bytes()) != want {
					t.Errorf("echo: %v", err)
				} else {
					m.Release()
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
